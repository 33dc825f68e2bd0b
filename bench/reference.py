"""The reference's side of bench/compare, one process for each call.

usage: reference.py export FORMAT CHECKPOINT FOLDER
       reference.py run FOLDER name=value…
       reference.py export_for_generation FORMAT CHECKPOINT FOLDER
       reference.py generate FOLDER IDS TOKENS
"""

import json
import os
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from transformers import exporters

BACKENDS = {  # format → exporter, config
    "onnx": ("OnnxExporter", "OnnxConfig"),
    "dynamo": ("DynamoExporter", "DynamoConfig"),
    "executorch": ("ExecutorchExporter", "ExecutorchConfig"),
}


def sample(config):
    # Two rows: a sample of batch 1 would make the batch static.
    inputs = {"input_ids": torch.randint(0, config.vocab_size, (2, 8)), "attention_mask": torch.ones(2, 8, dtype=torch.int64)}
    if getattr(config, "type_vocab_size", 0):
        inputs["token_type_ids"] = torch.zeros(2, 8, dtype=torch.int64)
    return inputs


def bounds(name, inputs, config):
    """Settings for a format whose memory is planned: the largest sizes that hfx gets, too (bench/compare)."""
    if name != "executorch":
        return {}
    axes = {0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("sequence", max=config.max_position_embeddings)}
    return {"dynamic_shapes": {key: axes for key in inputs}}


def load(checkpoint):
    config = transformers.AutoConfig.from_pretrained(checkpoint)
    return getattr(transformers, config.architectures[0]).from_pretrained(checkpoint).eval()


def export(name, checkpoint, folder):
    exporter, config = (getattr(exporters, part) for part in BACKENDS[name])
    model = load(checkpoint)
    inputs = sample(model.config)
    settings = config(dynamic=True, **bounds(name, inputs, model.config))
    exporter().export(model, inputs, settings).save_pretrained(folder)


def export_for_generation(name, checkpoint, folder):
    exporter, config = (getattr(exporters, part) for part in BACKENDS[name])
    model = load(checkpoint)
    inputs = sample(model.config)
    inputs["attention_mask"][0, 0] = 0  # an all-ones mask would be no input
    exporter().export_for_generation(model, inputs, config(dynamic=True)).save_pretrained(folder)


def generate(folder, ids, tokens):
    exported = exporters.ExportedModel.from_pretrained(folder, trust_remote_code=True)
    sequences, begin, cache = torch.tensor(json.loads(ids)), 0, transformers.DynamicCache(config=exported.config)
    length = sequences.shape[1]
    start = time.perf_counter()
    arrivals = []
    while sequences.shape[1] < length + int(tokens):
        runner = exported.runners["decode" if begin else "prefill"]
        positions = torch.arange(begin, sequences.shape[1])[None]
        output = runner(input_ids=sequences[:, begin:], attention_mask=torch.ones_like(sequences), position_ids=positions,
                        cache=cache)
        begin, cache = sequences.shape[1], output.cache
        sequences = torch.cat([sequences, output.logits[:, -1].argmax(-1, keepdim=True)], -1)
        arrivals.append(time.perf_counter())
    seconds = time.perf_counter() - start
    steps = [after - before for before, after in zip(arrivals, arrivals[1:])]
    print(json.dumps({"sequences": sequences.tolist(), "new_tokens": int(tokens), "seconds": seconds,
                      "step_seconds": steps}))


def run(folder, *words):
    inputs = {name: torch.tensor(json.loads(value)) for name, value in (word.split("=", 1) for word in words)}
    output = exporters.ExportedModel.from_pretrained(folder, trust_remote_code=True)(**inputs)
    print({name: list(value.shape) for name, value in output.items() if isinstance(value, torch.Tensor)})


if __name__ == "__main__":
    commands = {"export": export, "run": run, "export_for_generation": export_for_generation, "generate": generate}
    commands[sys.argv[1]](*sys.argv[2:])
