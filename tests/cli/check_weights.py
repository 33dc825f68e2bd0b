"""Where the weights of an ONNX export are: python check_weights.py HFX.

Checkpoints of each kind (one file, shards, tied weights, experts that the model holds in another form than the file) are
exported with weights=copy, link, reference and inline, as one forward and for generation. Each folder holds the files that
its mode promises, passes ONNX's full checker where that opens such files (hard links it refuses), runs in ONNX Runtime and in
transformers' ExportedModel with a DynamicCache in and out, at other sizes than the traced ones, and equals the model. A
second export gives the same bytes. Damaged weights are an error in words.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import onnx
import onnxruntime
import torch
from transformers import (AutoModelForCausalLM, DynamicCache, LlamaConfig, LlamaForCausalLM, MixtralConfig,
                          MixtralForCausalLM)
from transformers.exporters import ExportedModel

TOLERANCE = 1e-4  # another runtime, with sums in another order
MODES = ["copy", "link", "reference", "inline"]
LLAMA = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=12, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def write_checkpoints(work):
    """Name → folder. Files have names and offsets of their own in each."""
    torch.manual_seed(0)
    models = {
        "single": (LlamaForCausalLM(LlamaConfig(**LLAMA)), {}),
        "tied": (LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=True)), {}),
        "shards": (LlamaForCausalLM(LlamaConfig(**LLAMA)), {"max_shard_size": "20KB"}),
        "experts": (MixtralForCausalLM(MixtralConfig(**LLAMA, num_local_experts=3, num_experts_per_tok=2)), {}),
    }
    folders = {}
    for name, (model, options) in models.items():
        folders[name] = work / name / "checkpoint"
        model.eval().save_pretrained(folders[name], **options)
    assert len(list(folders["shards"].glob("*.safetensors"))) > 2
    return folders


def export(hfx, checkpoint, folder, mode, generation):
    words = ["--generation"] if generation else []
    return subprocess.run([hfx, "export", checkpoint, "--to", "onnx", "-o", folder, "--weights", mode, *words],
                          capture_output=True, text=True)


def digests(folder):
    return {file.relative_to(folder): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(folder.rglob("*")) if file.is_file()}


def located(path):
    """The files that hold the initializers of a graph; an empty name stands for the graph itself."""
    graph = onnx.load(path, load_external_data=False).graph
    return {next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
            for tensor in graph.initializer if len(tensor.raw_data) > 256 or tensor.external_data}


def check_files(checkpoint, folder, mode, components, has_other_form):
    weights = sorted(checkpoint.glob("*.safetensors"))
    first = folder / f"{components[0]}.onnx"
    for name in components:
        assert (folder / f"{name}.onnx.data").is_file(), f"{folder}: {name}.onnx.data"
    locations = set().union(*(located(folder / f"{name}.onnx") for name in components))
    if mode == "copy":
        assert locations == {f"{first.name}.data"}, locations
    elif mode == "link":
        links = [folder / f"{first.name}.data{number}" for number in ["", *(f".{i + 2}" for i in range(len(weights) - 1))]]
        assert {os.stat(link).st_ino for link in links} == {os.stat(file).st_ino for file in weights}, folder
        extra = {f"{first.name}.data.extra"} if has_other_form else set()
        assert locations == {link.name for link in links} | extra, locations
    elif mode == "reference":
        extra = {f"{first.name}.data"} if has_other_form else set()
        assert locations == {str(file.relative_to(folder)) for file in weights} | extra, locations
    else:
        assert locations == {""}, locations
        assert all((folder / f"{name}.onnx.data").stat().st_size == 0 for name in components)
    if mode != "link":
        for name in components:
            onnx.checker.check_model(str(folder / f"{name}.onnx"), full_check=True)


def close(mine, theirs, what):
    assert mine.shape == theirs.shape and mine.dtype == theirs.dtype, (what, mine.shape, theirs.shape)
    assert (mine - theirs).abs().max() <= TOLERANCE, (what, (mine - theirs).abs().max())


def check_forward(model, folder):
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    exported = ExportedModel.from_pretrained(folder)
    for rows, tokens in ((1, 3), (3, 7)):
        ids = torch.randint(3, model.config.vocab_size, (rows, tokens))
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        expected = model(**inputs).logits
        feed = {value.name: inputs[value.name].numpy() for value in session.get_inputs()}
        close(torch.from_numpy(session.run(["logits"], feed)[0]), expected, folder)
        close(exported(**inputs).logits, expected, folder)


def check_generation(model, folder):
    exported = ExportedModel.from_pretrained(folder)
    for rows, tokens in ((1, 4), (3, 9)):
        ids = torch.randint(3, model.config.vocab_size, (rows, tokens))
        theirs, mine = DynamicCache(config=model.config), DynamicCache(config=exported.config)
        for step in range(3):
            name = "decode" if step else "prefill"
            past = 0 if not step else tokens + step - 1
            positions = torch.arange(past, past + ids.shape[1]).expand(rows, -1).contiguous()
            inputs = {"input_ids": ids, "position_ids": positions,
                      "attention_mask": torch.ones(rows, past + ids.shape[1], dtype=torch.long)}
            expected = model(**inputs, cache=theirs)
            actual = exported.runners[name](**inputs, cache=mine)
            close(actual.logits, expected.logits, f"{folder} {name}")
            theirs, mine = expected.cache, actual.cache
            assert type(mine) is DynamicCache and mine.get_seq_length() == past + ids.shape[1]
            for mine_layer, their_layer in zip(mine.layers, theirs.layers, strict=True):
                close(mine_layer.keys, their_layer.keys, f"{folder} {name}")
                close(mine_layer.values, their_layer.values, f"{folder} {name}")
            ids = expected.logits[:, -1].argmax(-1, keepdim=True)


def check_mode(hfx, model, checkpoint, mode, generation, has_other_form):
    folder = checkpoint.parent / ("reference" if mode == "reference" else f"{mode}_{generation}")
    if mode == "reference":  # above the checkpoint
        shutil.copytree(checkpoint, folder / "weights")
        checkpoint = folder / "weights"
    result = export(hfx, checkpoint, folder, mode, generation)
    assert result.returncode == 0, result.stderr
    check_files(checkpoint, folder, mode, ["prefill", "decode"] if generation else ["model"], has_other_form)
    check_generation(model, folder) if generation else check_forward(model, folder)
    before = digests(folder)
    assert export(hfx, checkpoint, folder, mode, generation).returncode == 0
    assert digests(folder) == before, folder
    if mode in ("copy", "inline"):
        moved = folder.with_name("moved")
        folder.rename(moved)
        shutil.move(checkpoint, checkpoint.with_name("gone"))
        check_generation(model, moved) if generation else check_forward(model, moved)
        shutil.move(checkpoint.with_name("gone"), checkpoint)
        folder = moved
    shutil.rmtree(folder)


def check_beside(hfx, model, checkpoint):
    """An export in the checkpoint's own folder: what was there stays, and both can be used and made again."""
    before = digests(checkpoint)
    result = export(hfx, checkpoint, checkpoint, "copy", False)
    assert result.returncode == 1 and "is a checkpoint" in result.stderr, result.stderr
    assert digests(checkpoint) == before
    for generation in (False, True, False):
        result = export(hfx, checkpoint, checkpoint, "reference", generation)
        assert result.returncode == 0, result.stderr
        now = digests(checkpoint)
        assert {name: now[name] for name in before} == before
        check_generation(model, checkpoint) if generation else check_forward(model, checkpoint)
    AutoModelForCausalLM.from_pretrained(checkpoint)
    result = export(hfx, checkpoint, checkpoint, "copy", False)
    assert result.returncode == 1 and "is a checkpoint" in result.stderr, result.stderr
    assert digests(checkpoint) == now
    outside = checkpoint.parent / "outside"
    result = export(hfx, checkpoint, outside, "reference", False)
    assert result.returncode == 1 and "weights=link" in result.stderr, result.stderr
    assert not outside.exists()


def check_replaced(hfx, checkpoint, work):
    """A mode's files go when another mode takes their place."""
    for mode in ("link", "copy", "inline", "link", "copy"):
        assert export(hfx, checkpoint, work, mode, False).returncode == 0
        names = {file.name for file in work.iterdir()}
        assert ("model.onnx.data.2" in names) == (mode == "link"), (mode, names)


def check_damage(hfx, checkpoint):
    weights = checkpoint / "model.safetensors"
    ids = ["--inputs", "input_ids=[[3, 4]]", "attention_mask=[[1, 1]]"]
    size = weights.stat().st_size // 2
    os.truncate(weights, size)
    result = subprocess.run([hfx, "run", checkpoint, *ids], capture_output=True, text=True)
    assert result.returncode == 1 and f"only {size} bytes" in result.stderr, result.stderr
    weights.rename(weights.with_name("elsewhere"))
    result = subprocess.run([hfx, "run", checkpoint, *ids], capture_output=True, text=True)
    assert result.returncode == 1 and "'model.safetensors', which is not in the model's folder" in result.stderr, result.stderr


def main():
    hfx = sys.argv[1]
    with tempfile.TemporaryDirectory() as work, torch.no_grad():
        folders = write_checkpoints(pathlib.Path(work))
        for name, checkpoint in folders.items():
            model = AutoModelForCausalLM.from_pretrained(checkpoint).eval()
            for mode in MODES:
                for generation in (False, True):
                    check_mode(hfx, model, checkpoint, mode, generation, name == "experts")
            check_beside(hfx, model, checkpoint)
            print(f"{name}: ok")
        check_replaced(hfx, folders["shards"], pathlib.Path(work) / "replaced")
        check_damage(hfx, folders["single"])


if __name__ == "__main__":
    main()
