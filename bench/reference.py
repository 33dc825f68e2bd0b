"""The reference's side of bench/compare, one process for each call.

usage: reference.py export FORMAT CHECKPOINT FOLDER
       reference.py run FOLDER name=value…
"""

import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from transformers import exporters

BACKENDS = {  # format → exporter, config
    "onnx": ("OnnxExporter", "OnnxConfig"),
    "dynamo": ("DynamoExporter", "DynamoConfig"),
}


def sample(config):
    # Two rows: a sample of batch 1 would make the batch static.
    inputs = {"input_ids": torch.randint(0, config.vocab_size, (2, 8)), "attention_mask": torch.ones(2, 8, dtype=torch.int64)}
    if getattr(config, "type_vocab_size", 0):
        inputs["token_type_ids"] = torch.zeros(2, 8, dtype=torch.int64)
    return inputs


def export(name, checkpoint, folder):
    exporter, config = (getattr(exporters, part) for part in BACKENDS[name])
    model_config = transformers.AutoConfig.from_pretrained(checkpoint)
    model = getattr(transformers, model_config.architectures[0]).from_pretrained(checkpoint).eval()
    exporter().export(model, sample(model_config), config(dynamic=True)).save_pretrained(folder)


def run(folder, *words):
    inputs = {name: torch.tensor(json.loads(value)) for name, value in (word.split("=", 1) for word in words)}
    output = exporters.ExportedModel.from_pretrained(folder, trust_remote_code=True)(**inputs)
    print({name: list(value.shape) for name, value in output.items() if isinstance(value, torch.Tensor)})


if __name__ == "__main__":
    {"export": export, "run": run}[sys.argv[1]](*sys.argv[2:])
