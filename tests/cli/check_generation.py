"""Generation across the two implementations: python check_generation.py HFX DECODERS GENERATION.

DECODERS and GENERATION are what tests/reference/make_decoders.py and make_generation.py wrote. Folders that hfx exports for
generation, ONNX and .pt2, are loaded by transformers' ExportedModel, whose runners give the tokens of generate, prefill,
decode and a cache that goes from one to the other. Folders that transformers exports are run by `hfx generate`.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import onnx
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, DynamicCache, GenerationConfig, StaticCache
from transformers.exporters import ExportedModel
from transformers.exporters.configs import DynamoConfig, OnnxConfig
from transformers.exporters.exporter_dynamo import DynamoExporter
from transformers.exporters.exporter_onnx import OnnxExporter

# Full attention, sliding windows between full layers, learned positions.
CHECKPOINTS = ["llama/LlamaForCausalLM_plain_0", "gemma3_text/Gemma3ForCausalLM_plain_0", "gpt2/GPT2LMHeadModel_plain_0"]
ROOM = 40
ONE_COMPONENT = ("merged", "fused")  # ONNX only


def recorded(generation, checkpoint, case):
    with safe_open(generation / (checkpoint + ".safetensors"), "pt") as file:
        settings = json.loads(file.metadata()["cases"])[case]
        tensors = {name.split(".", 1)[1]: file.get_tensor(name) for name in file.keys() if name.startswith(case + ".")}
    return settings, tensors


def positions_of(mask):
    return (mask.cumsum(-1) - 1).masked_fill(mask == 0, 0)


def room_mask(mask, queries):
    """bool [batch, 1, queries, ROOM], as generate passes it with a static cache."""
    batch, total = mask.shape
    visible = torch.zeros(batch, ROOM, dtype=torch.bool)
    visible[:, :total] = mask.bool()
    places = torch.arange(ROOM)
    causal = torch.stack([places <= total - queries + query for query in range(queries)])
    return causal[None, None] & visible[:, None, None]


def empty_cache(exported, folder, kind):
    config = exported.config
    if kind == "static":
        return StaticCache(config=config, max_cache_len=ROOM)
    if kind in ONE_COMPONENT:
        graph = onnx.load(folder / "decode.onnx", load_external_data=False).graph
        dims = next(value for value in graph.input if value.name.endswith(".keys")).type.tensor_type.shape.dim
        empty = torch.zeros(2, dims[1].dim_value, 0, dims[3].dim_value)
        return {"layers": [{"keys": empty, "values": empty}] * config.num_hidden_layers}
    return DynamicCache(config=config)


def python_tokens(folder, ids, mask, new, kind):
    exported = ExportedModel.from_pretrained(folder, trust_remote_code=True)
    cache = empty_cache(exported, folder, kind)
    begin, sequences = 0, ids
    while sequences.shape[1] < ids.shape[1] + new:
        queries = sequences.shape[1] - begin
        runner = exported.runners["decode" if begin or kind in ONE_COMPONENT else "prefill"]
        output = runner(input_ids=sequences[:, begin:].contiguous(), cache=cache,
                        attention_mask=room_mask(mask, queries) if kind == "static" else mask,
                        position_ids=positions_of(mask)[:, begin:].contiguous())
        begin, cache = sequences.shape[1], output.cache
        sequences = torch.cat([sequences, output.logits[:, -1].argmax(-1, keepdim=True)], -1)
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], -1)
    return sequences


def hfx_tokens(hfx, target, tensors, settings, work):
    save_file({name: tensor for name, tensor in tensors.items() if name != "sequences"}, work / "in.safetensors")
    words = [f"--set={name}={json.dumps(value)}" for name, value in settings.items()]
    subprocess.run([hfx, "generate", target, "--inputs", work / "in.safetensors", "-o", work / "out.safetensors", *words],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return load_file(work / "out.safetensors")["sequences"]


def check_ours(hfx, decoders, checkpoint, settings, tensors, work):
    kinds = {"growing": [], "merged": ["--merged"], "fused": ["--set", "ort_fusions=cpu"],
             "static": ["--set", "cache_implementation=static", "--set", f"max_cache_len={ROOM}"]}
    for kind, words in kinds.items():
        if kind == "static" and "gemma3" in checkpoint:
            continue  # Python's own object for a static cache has layers of another class where there are windows
        for to in ("onnx", "dynamo"):
            if kind in ONE_COMPONENT and (to == "dynamo" or "gemma3" in checkpoint):
                continue  # Python's own objects for a cache without tokens have another class than the traced ones
            folder = work / f"{kind}_{to}"
            subprocess.run([hfx, "export", decoders / checkpoint, "--to", to, "--generation", "-o", folder, *words],
                           check=True, stdout=subprocess.DEVNULL)
            assert GenerationConfig.from_pretrained(folder).eos_token_id == 2
            if to == "onnx":
                for name in json.loads((folder / "export.json").read_text())["components"]:
                    onnx.checker.check_model(str(folder / f"{name}.onnx"), full_check=True)
            got = python_tokens(folder, tensors["input_ids"], tensors["attention_mask"], settings["max_new_tokens"], kind)
            assert torch.equal(got, tensors["sequences"]), f"{checkpoint} {kind} {to}: {got} {tensors['sequences']}"


def check_theirs(hfx, decoders, checkpoint, settings, tensors, work):
    model = AutoModelForCausalLM.from_pretrained(decoders / checkpoint).eval()
    inputs = {"input_ids": tensors["input_ids"], "attention_mask": tensors["attention_mask"]}
    exporters = {"onnx": (OnnxExporter, OnnxConfig), "dynamo": (DynamoExporter, DynamoConfig)}
    for to, (exporter, config) in exporters.items():
        if to == "dynamo" and "gemma3" in checkpoint:
            continue  # refused by Python too: its decode counts the tokens of the sample
        folder = work / f"python_{to}"
        exporter().export_for_generation(model, dict(inputs), config(dynamic=True)).save_pretrained(folder)
        got = hfx_tokens(hfx, folder, tensors, settings, work)
        assert torch.equal(got, tensors["sequences"]), f"{checkpoint} {to}: {got} {tensors['sequences']}"


def main():
    hfx, decoders, generation = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    for checkpoint in CHECKPOINTS:
        settings, tensors = recorded(generation, checkpoint, "greedy")
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)
            eager = hfx_tokens(hfx, decoders / checkpoint, tensors, settings, work)
            assert torch.equal(eager, tensors["sequences"]), f"{checkpoint}: {eager} {tensors['sequences']}"
            check_ours(hfx, decoders, checkpoint, settings, tensors, work)
            check_theirs(hfx, decoders, checkpoint, settings, tensors, work)
        print(f"{checkpoint}: ok")


if __name__ == "__main__":
    main()
