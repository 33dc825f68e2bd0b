"""Weights that an ONNX export rounded: python check_quantization.py HFX.

Each export's rounded weights are read with onnx and taken back to numbers with numpy. They lie as close to the checkpoint's
as their scales say. The model with these numbers in place of its weights gives what ONNX Runtime gives for the export, and
its distance from the model as it was is the error that hfx reported. What hfx says it kept is there as it was.
"""

import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from transformers import (BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel, LlamaConfig,
                          LlamaForCausalLM)
from transformers.exporters import ExportedModel

TOLERANCE = 1e-4  # another runtime, with sums in another order
# Activations are rounded too, as the runtime's kernel does: hfx computes that by itself, sums in another order.
INT8_TOLERANCE = 5e-3
IDS = [[5, 9, 11, 3], [8, 4, 21, 30]]

LLAMA = dict(vocab_size=61, hidden_size=40, intermediate_size=104, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=12, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def models():
    """Name → model, its type of weights, options of the export."""
    torch.manual_seed(0)
    llama, tied = LlamaForCausalLM(LlamaConfig(**LLAMA)), LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=True))
    bert = BertForSequenceClassification(BertConfig(vocab_size=61, hidden_size=48, num_hidden_layers=2, num_labels=3,
                                                    num_attention_heads=4, intermediate_size=72))
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=61, n_embd=48, n_layer=2, n_head=4, n_positions=64, bos_token_id=1,
                                      eos_token_id=2))
    return {"llama": (llama, []), "tied": (tied, []), "bert": (bert, []), "gpt2": (gpt2, []),
            "bf16 to float32": (copy.deepcopy(llama).to(torch.bfloat16), ["--dtype", "float32"]),
            "float16": (copy.deepcopy(llama), ["--dtype", "float16"])}


FORMATS = [dict(bits=bits, block=block, symmetric=symmetric, level=level)
           for bits, block, symmetric, level in [(4, 32, True, 0), (4, 16, False, 0), (4, 128, False, 4), (8, 32, True, 0),
                                                 (8, 32, False, 4), (8, 256, False, 0)]]


def export(hfx, checkpoint, folder, format, options):
    settings = {"quantization": f"int{format['bits']}", "quantization_block_size": format["block"],
                "quantization_symmetric": json.dumps(format["symmetric"]), "quantization_accuracy_level": format["level"]}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    result = subprocess.run([hfx, "export", checkpoint, "--to", "onnx", "-o", folder, "--json", "--sample",
                             f"input_ids={json.dumps(IDS)}", *words, *options], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["components"]["model"]["quantization"]


def unpacked(numbers, bits, count):
    """uint8 [rows, bytes] → numbers [rows, count]."""
    if bits == 4:
        numbers = numpy.stack([numbers & 15, numbers >> 4], -1).reshape(len(numbers), -1)
    return numbers[:, :count].astype(numpy.int32)


def dequantized(folder, format):
    """Weight → (numbers back as float [N, K], scales for each)."""
    model = onnx.load(folder / "model.onnx")
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    bits, block = format["bits"], format["block"]
    weights = {}
    for node in model.graph.node:
        if node.op_type != "MatMulNBits":
            continue
        attributes = {entry.name: entry.i for entry in node.attribute}
        assert attributes["bits"] == bits and attributes["block_size"] == block
        assert attributes["accuracy_level"] == format["level"]
        rows, columns = attributes["N"], attributes["K"]
        blocks = -(-columns // block)
        values, scales = arrays[node.input[1]], arrays[node.input[2]].astype(numpy.float32)
        assert values.shape == (rows, blocks, block * bits // 8) and scales.shape == (rows, blocks)
        numbers = unpacked(values.reshape(rows, -1), bits, blocks * block).reshape(rows, blocks, block)
        zero = numpy.full((rows, blocks), 1 << (bits - 1))
        if not format["symmetric"]:
            zero = unpacked(arrays[node.input[3]], bits, blocks)
        back = (numbers - zero[..., None]).astype(numpy.float32) * scales[..., None]
        step = numpy.broadcast_to(numpy.abs(scales)[..., None], back.shape)
        name = node.input[1].removesuffix(".values")
        weights[name] = tuple(array.reshape(rows, -1)[:, :columns] for array in (back, step))
    return weights, arrays


def check_distance(name, weight, back, step, format, half_scales):
    # Half a step, and what the outermost of 16 or 256 numbers is off where scales themselves are rounded to float16.
    half = 0.502 + (0.0005 * (1 << format["bits"]) if half_scales else 0)
    # The outermost value on the side that has one number less may be a whole step off.
    limit = step * (0.5 + half if format["symmetric"] else half) + 1e-7
    distance = numpy.abs(weight - back)
    assert (distance <= limit).all(), (name, format, (distance - limit).max())
    assert numpy.mean(distance <= step * half + 1e-7) > 0.95, (name, format)


def rounded_model(model, weights, format):
    result = copy.deepcopy(model)
    state = dict(result.named_parameters())
    for name, (back, step) in weights.items():
        parameter = state[name]
        value = parameter.detach().float().numpy()
        transposed = value.shape != back.shape or "c_" in name  # GPT-2's matrices lie as [inputs, outputs]
        check_distance(name, value.T if transposed else value, back, step, format,
                       parameter.dtype == torch.float16)
        parameter.data = torch.from_numpy(numpy.ascontiguousarray(back.T if transposed else back)).to(parameter.dtype)
    return result


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def check(hfx, name, model, options, format, work):
    checkpoint, folder = work / name / "checkpoint", work / name / str(list(format.values()))
    if not checkpoint.exists():
        model.save_pretrained(checkpoint)
    report = export(hfx, checkpoint, folder, format, options)
    onnx.checker.check_model(str(folder / "model.onnx"))
    weights, arrays = dequantized(folder, format)
    assert report["weights"] == len(weights) > 4, report
    kept = report["kept"]
    assert not set(kept) & set(weights) and set(kept) <= set(arrays), report
    assert ("model.embed_tokens.weight" in kept) == (name not in ("bert", "gpt2")), kept
    assert ("lm_head.weight" in weights) == (name in ("llama", "bf16 to float32", "float16")), (name, list(weights))
    if name in ("tied", "gpt2"):
        assert any("tied to an embedding" in reason for reason in kept.values()), kept

    half = name == "float16"
    exact = copy.deepcopy(model).half() if half else copy.deepcopy(model).float()
    rounded = rounded_model(exact, weights, format)
    ids = torch.tensor(IDS)
    theirs, mine = exact(input_ids=ids).logits.float(), rounded(input_ids=ids).logits.float()
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    feed = {value.name: numpy.array(IDS) for value in session.get_inputs()}
    assert list(feed) == ["input_ids"]
    actual = torch.from_numpy(session.run(["logits"], feed)[0]).float()
    scale = theirs.abs().max().item()
    tolerance = (INT8_TOLERANCE if format["level"] == 4 else 2e-3 if half else TOLERANCE) * max(scale, 1)
    if format["level"] == 0:
        assert (actual - mine).abs().max() <= tolerance, (name, format, (actual - mine).abs().max())
    error = report["errors"]["logits"]
    measured = (actual - theirs).abs().max().item()
    assert abs(error["max_abs"] - measured) <= tolerance, (name, format, error, measured)
    assert abs(error["relative"] - relative(actual, theirs)) <= max(tolerance / scale, 0.1 * error["relative"]), (name, error)
    assert error["max_abs"] > 0
    loaded = ExportedModel.from_pretrained(folder)(input_ids=ids).logits.float()
    assert torch.equal(loaded, actual), (name, format)


def main():
    hfx = sys.argv[1]
    with tempfile.TemporaryDirectory() as work, torch.no_grad():
        for name, (model, options) in models().items():
            for format in FORMATS:
                check(hfx, name, model.eval(), options, format, pathlib.Path(work))
            print(f"{name}: ok")


if __name__ == "__main__":
    main()
