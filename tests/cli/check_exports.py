"""What Python makes of folders that hfx exported: python check_exports.py HFX MODELS MINILM.

MODELS is what tests/reference/make_models.py wrote, MINILM the all-MiniLM-L6-v2 checkpoint. Each ONNX folder passes ONNX's
full checker with strict shape inference. transformers' own ExportedModel loads each folder, ONNX and .pt2, and returns the
object and the values that the model returns. Of a .pt2, torch.export saves it again, makes its core ATen form and its
modules. A decoder's .pt2 takes a DynamicCache and returns it longer, at other sizes than the traced ones; torch.onnx.export
makes an ONNX model of it.
"""

import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import onnx
import onnxruntime
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.utils._pytree import tree_leaves
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.exporters import ExportedModel

HEADS = ["BertModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification",
         "BertForQuestionAnswering", "BertForMultipleChoice", "BertForNextSentencePrediction", "BertForPreTraining"]

TIED = {"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias"}

# fp32 sums of up to 1536 terms in another order.
TOLERANCE = 1e-5

# A decoder that goes on after a cache: tiny sums, the same kernels.
DECODER = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
               num_key_value_heads=2, head_dim=12, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
DECODER_TOLERANCE = 1e-6
ONNX_TOLERANCE = 1e-4  # another runtime, with sums in another order
DECODER_SAMPLE = (2, 3, 5)  # rows, tokens, earlier tokens
DECODER_SIZES = [DECODER_SAMPLE, (1, 1, 1), (1, 6, 4), (3, 1, 9), (4, 2, 17)]


def export(hfx, checkpoint, folder, *more, to="onnx"):
    subprocess.run([hfx, "export", checkpoint, "--to", to, "-o", folder, *more], check=True, stdout=subprocess.DEVNULL)


def check_graph(path):
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(str(path), load_external_data=False)
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    for output in inferred.graph.output:
        assert output.type.tensor_type.HasField("shape"), f"{path}: {output.name} has no shape"


def read_io(path):
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        return tensors, file.metadata()


def flat(value, prefix=""):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if torch.is_tensor(item):
            yield f"{prefix}{key}", item
        else:
            yield from flat(item, f"{prefix}{key}.")


def valid(tensor, mask):
    """The positions whose mask is 1; everything where an output has no position axis."""
    return tensor[mask.bool()] if tensor.shape[: mask.dim()] == mask.shape else tensor


def check_program(path, recordings):
    """What else Python does with a .pt2."""
    program = torch.export.load(str(path))
    program.run_decompositions()
    unflattened = torch.export.unflatten(program)
    for recording in recordings:
        check_output(recording, unflattened)
    with tempfile.TemporaryDirectory() as work:
        again = os.path.join(work, "again.pt2")
        torch.export.save(program, again)
        assert str(torch.export.load(again).graph) == str(program.graph), path


def check_half(hfx, checkpoint, work):
    """Weights that are converted while they are written: each is what torch makes of the stored one, tied ones too."""
    stored = load_file(checkpoint / "model.safetensors")
    for dtype in (torch.float16, torch.bfloat16):
        folder = work / f"{checkpoint.name}_{dtype}"
        export(hfx, checkpoint, folder, "--dtype", str(dtype).removeprefix("torch."), to="dynamo")
        state = torch.export.load(str(folder / "model.pt2")).state_dict
        for name, tensor in state.items():
            expected = stored[name if name in stored else TIED[name]].to(dtype)
            assert tensor.dtype == dtype and torch.equal(tensor, expected), f"{folder}: {name}"


def check_output(path, call):
    tensors, meta = read_io(path)
    inputs = {name[3:]: value for name, value in tensors.items() if name.startswith("in.")}
    expected = {name[4:]: value for name, value in tensors.items() if name.startswith("out.")}
    output = call(**inputs)
    name = f"{type(output).__module__}.{type(output).__name__}"
    assert name == meta["class"], f"{path}: {name} instead of {meta['class']}"
    assert list(output.keys()) == json.loads(meta["keys"]), f"{path}: {list(output.keys())}"
    actual = dict(flat(output))
    assert actual.keys() == expected.keys(), f"{path}: {list(actual)} instead of {list(expected)}"
    for key, value in expected.items():
        assert actual[key].shape == value.shape and actual[key].dtype == value.dtype, f"{path}: {key}"
        difference = (valid(actual[key], inputs["attention_mask"]) - valid(value, inputs["attention_mask"])).abs()
        assert difference.numel() == 0 or difference.max() <= TOLERANCE, f"{path}: {key} is off by {difference.max():.1e}"


def check_values(folder, recordings):
    exported = ExportedModel.from_pretrained(folder, trust_remote_code=True)
    for path in recordings:
        check_output(path, exported)


def decoder_inputs(model, rows, tokens, past):
    """Inputs after a cache that the model itself filled; with more than one row, the first is padded on the left."""
    ids = torch.randint(3, model.config.vocab_size, (rows, past + tokens))
    mask = torch.ones_like(ids)
    if rows > 1:
        mask[0, 0] = 0
    cache = DynamicCache(config=model.config)
    model(input_ids=ids[:, :past], attention_mask=mask[:, :past], cache=cache)
    return dict(input_ids=ids[:, past:], attention_mask=mask, cache=cache)


def check_part_missing(hfx, checkpoint, leaves, work):
    part = "cache.layers.1.values"
    save_file({name: tensor for name, tensor in leaves.items() if name != part}, work / "part.safetensors")
    result = subprocess.run([hfx, "export", checkpoint, "--to", "dynamo", "-o", work / "refused", "--sample",
                             work / "part.safetensors"], capture_output=True, text=True)
    assert result.returncode == 1 and f"missing: '{part}'" in result.stderr, result.stderr
    assert not (work / "refused").exists()


def check_decoder(hfx, work):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**DECODER)).eval()
    checkpoint, folder = work / "decoder", work / "decoder_traced"
    model.save_pretrained(checkpoint)
    sample = decoder_inputs(model, *DECODER_SAMPLE)
    leaves = {name: sample[name] for name in ("input_ids", "attention_mask")}
    for i, layer in enumerate(sample["cache"].layers):
        leaves |= {f"cache.layers.{i}.keys": layer.keys, f"cache.layers.{i}.values": layer.values}
    leaves = {name: tensor.contiguous() for name, tensor in leaves.items()}
    check_part_missing(hfx, checkpoint, leaves, work)
    save_file(leaves, work / "sample.safetensors")
    export(hfx, checkpoint, folder, "--sample", work / "sample.safetensors", to="dynamo")

    exported = ExportedModel.from_pretrained(folder, trust_remote_code=True)  # registers the cache classes too
    program = torch.export.load(str(folder / "model.pt2"))
    decomposed = program.run_decompositions()
    callables = {"ExportedModel": exported, "module()": program.module(), "decomposed": decomposed.module()}
    for what, each in {"saved": program, "decomposed, saved": decomposed}.items():
        torch.export.save(each, str(work / "again.pt2"))
        callables[what] = torch.export.load(str(work / "again.pt2")).module()
    callables["unflattened"] = torch.export.unflatten(program)
    torch.onnx.export(program, f=str(work / "decoder.onnx"), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(str(work / "decoder.onnx"), providers=["CPUExecutionProvider"])
    for sizes in DECODER_SIZES:
        inputs = decoder_inputs(model, *sizes)
        expected = model(**copy.deepcopy(inputs))
        named = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        named |= {f"cache_{i}": leaf for i, leaf in enumerate(tree_leaves(inputs["cache"]))}
        in_ort = session.run(None, {name: tensor.numpy() for name, tensor in named.items()})
        for mine, theirs in zip(in_ort, tree_leaves(expected), strict=True):
            difference = (torch.from_numpy(mine) - theirs).abs().max()
            assert difference <= ONNX_TOLERANCE, f"in ONNX Runtime at {sizes} it is off by {difference:.1e}"
        for what, call in callables.items():
            actual = call(**copy.deepcopy(inputs))
            assert type(actual) is type(expected) and type(actual.cache) is type(expected.cache), (what, type(actual))
            pairs = [(actual.logits, expected.logits)]
            for mine, theirs in zip(actual.cache.layers, expected.cache.layers, strict=True):
                assert type(mine) is type(theirs), (what, type(mine))
                pairs += [(mine.keys, theirs.keys), (mine.values, theirs.values)]
            for mine, theirs in pairs:
                assert mine.shape == theirs.shape and mine.dtype == theirs.dtype, (what, sizes, mine.shape)
                difference = (mine - theirs).abs().max()
                assert difference <= DECODER_TOLERANCE, f"{what} at {sizes} is off by {difference:.1e}"


def main():
    hfx, models, minilm = (pathlib.Path(word) for word in sys.argv[1:])
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        with torch.no_grad():
            check_decoder(hfx, work)
        export(hfx, minilm, work / "minilm")
        check_graph(work / "minilm" / "model.onnx")
        check_values(work / "minilm", sorted((models / "minilm").glob("io_*.safetensors")))
        for head in HEADS:
            checkpoint = models / "cases" / f"{head}_relu_0"
            plain, recorded = work / head, work / f"{head}_recorded"
            export(hfx, checkpoint, plain)
            export(hfx, checkpoint, recorded, "--forward", "output_hidden_states=true", "output_attentions=true")
            check_graph(plain / "model.onnx")
            check_graph(recorded / "model.onnx")
            check_values(plain, [checkpoint / f"io_{shape}.safetensors" for shape in ("b1s1", "b2s7", "b3s12")])
            check_values(recorded, [checkpoint / "io_b2s7_recorded.safetensors"])
            traced = work / f"{head}_traced"
            export(hfx, checkpoint, traced, to="dynamo")
            recordings = [checkpoint / f"io_{shape}.safetensors" for shape in ("b1s1", "b2s7", "b3s12")]
            check_values(traced, recordings)
            check_program(traced / "model.pt2", recordings)
        # Other activations, one label, untied embeddings; fp16 and bf16 weights; the oldest opset that is offered.
        for case in ("BertForMaskedLM_gelu_new_0", "BertForSequenceClassification_gelu_new_0", "BertForMaskedLM_float16",
                     "BertModel_bfloat16"):
            export(hfx, models / "cases" / case, work / case)
            check_graph(work / case / "model.onnx")
        check_half(hfx, models / "cases" / "BertForMaskedLM_relu_0", work)
        export(hfx, models / "cases" / "BertModel_relu_0", work / "opset18", "--set", "opset_version=18")
        check_graph(work / "opset18" / "model.onnx")


if __name__ == "__main__":
    main()
