"""Latency of Python's ExportedProgram.module() and of the eager model: `module_latency.py CHECKPOINT RUNS B,S…`.

Prints one JSON object a shape, with medians in milliseconds.
"""

import json
import os
import statistics
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

from reference import sample

WARM_UP = 5


def load(checkpoint):
    config = transformers.AutoConfig.from_pretrained(checkpoint)
    return getattr(transformers, config.architectures[0]).from_pretrained(checkpoint).eval()


def exported_module(model):
    inputs = sample(model.config)
    shapes = {name: {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO} for name in inputs}
    return torch.export.export(model, (), inputs, dynamic_shapes=shapes).module()


def inputs_of(config, batch, sequence):
    return {name: value[:1, :1].expand(batch, sequence).contiguous() for name, value in sample(config).items()}


def medians(calls, runs):
    times = {side: [] for side in calls}
    for number in range(-WARM_UP, runs):
        for side in list(calls)[:: 1 if number % 2 else -1]:
            start = time.perf_counter()
            calls[side]()
            if number >= 0:
                times[side].append(time.perf_counter() - start)
    return {side: 1000 * statistics.median(values) for side, values in times.items()}


def main():
    checkpoint, runs, *shapes = sys.argv[1:]
    model = load(checkpoint)
    module = exported_module(model)
    for shape in shapes:
        batch, sequence = map(int, shape.split(","))
        inputs = inputs_of(model.config, batch, sequence)
        with torch.no_grad():
            values = medians({"eager": lambda: model(**inputs), "module": lambda: module(**inputs)}, int(runs))
        print(json.dumps({"batch": batch, "sequence": sequence, "python_eager_ms": values["eager"], "module_ms": values["module"]}))


if __name__ == "__main__":
    main()
