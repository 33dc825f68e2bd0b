"""Loads every .pt2 file that the tests of the room pt2 wrote with torch.export.load, and runs it.

    python check_pt2.py DIR MODELS

DIR holds, for each <name>.pt2, <name>.tasks.json and the safetensors files that it names (tests/pt2/saved_program.h).
MODELS is the folder of make_models.py: a program of a checkpoint has to give what transformers' own model gives.

For each program: the calls at all sizes, refused sizes, sharing of storages, run_decompositions, saving and loading
again, unflatten, module() exported again, and where the tasks say so torch.onnx.export with a run in ONNX Runtime.
"""

import importlib
import json
import logging
import os
import pathlib
import re
import sys
import tempfile
import warnings
import zipfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")

import torch
import transformers
from safetensors.torch import load_file

torch.set_num_threads(1)
logging.getLogger("torch.onnx").setLevel(logging.ERROR)
TOLERANCE = 1e-6
DECOMPOSED_TOLERANCE = 1e-5  # other kernels, with sums in another order


def nested(tensors):
    """{"a.0.b": x} → {"a": [{"b": x}]}"""
    tree = {}
    for path, tensor in tensors.items():
        *parents, last = path.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = tensor

    def lists(node):
        if not isinstance(node, dict):
            return node
        children = {key: lists(child) for key, child in node.items()}
        if children and all(key.isdigit() for key in children):
            return [children[key] for key in sorted(children, key=int)]
        return children

    return lists(tree)


def leaves(value):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def difference(actual, expected):
    actual, expected = leaves(actual), leaves(expected)
    if [(a.shape, a.dtype) for a in actual] != [(e.shape, e.dtype) for e in expected]:
        return float("inf")
    worst = 0.0
    for a, e in zip(actual, expected):
        if a.numel():
            gap = (a.to(torch.complex128) - e.to(torch.complex128)).abs() / e.to(torch.complex128).abs().clamp_min(1)
            gap[(a == e) | ((a != a) & (e != e))] = 0
            worst = max(worst, float(gap.max()))
    return worst


class Program:
    def __init__(self, file, models):
        self.file = file
        self.folder = file.parent
        self.tasks = json.loads((self.folder / f"{file.stem}.tasks.json").read_text())
        self.model = None
        if self.tasks["checkpoint"]:
            cls = getattr(transformers, self.tasks["class"])
            self.model = cls.from_pretrained(models / "cases" / self.tasks["checkpoint"]).eval()
        self.problems = []

    def inputs(self, name):
        constants = {key: value for key, value in self.tasks["constants"].items()}
        return {**nested(load_file(self.folder / name)), **constants}

    def expected(self, call):
        if call["outputs"]:
            tensors = load_file(self.folder / call["outputs"])
            return [tensors[key] for key in sorted(tensors)]
        with torch.no_grad():
            return self.model(**self.inputs(call["inputs"]))

    def check(self, condition, text):
        if not condition:
            self.problems.append(text)

    def check_calls(self, module, what, tolerance=TOLERANCE):
        for call in self.tasks["calls"]:
            expected = self.expected(call)
            try:
                with torch.no_grad():
                    actual = module(**self.inputs(call["inputs"]))
            except Exception as error:  # noqa: BLE001 - the report goes on with the next call
                self.problems.append(f"{what} {call['inputs']}: {type(error).__name__} {one_line(error)}")
                continue
            worst = difference(actual, expected)
            self.check(worst <= tolerance, f"{what} {call['inputs']}: differs by {worst}")
            if self.model is not None:
                self.check(type(actual) is type(expected), f"{what}: a {type(actual).__name__} came back")

    def check_refused(self, module, what):
        for name in self.tasks["refused"]:
            try:
                module(**self.inputs(name))
            except (AssertionError, RuntimeError, ValueError) as error:
                # Refused before the kernels, not by one of them.
                known = re.search(r"Guard failed|[Rr]untime assertion|Expected input at", str(error))
                self.check(known, f"{what} {name}: refused otherwise: {one_line(error)}")
            else:
                self.problems.append(f"{what} {name}: was not refused")

    def run(self):
        self.check(zipfile.ZipFile(self.file).testzip() is None, "an entry does not fit its checksum")
        program = torch.export.load(self.file)
        self.check(bool(program.example_inputs) == self.tasks["samples"], "example inputs are missing, or too many")
        self.check_calls(program.module(), "call")
        self.check_refused(program.module(), "call")
        self.check_again(program)
        if self.tasks["onnx"]:
            self.check_onnx(program)

    def check_again(self, program):
        decomposed = program.run_decompositions()
        self.check_calls(decomposed.module(), "decomposed", DECOMPOSED_TOLERANCE)
        with tempfile.TemporaryDirectory() as folder:
            for which, each in {"saved again": program, "decomposed, saved": decomposed}.items():
                file = pathlib.Path(folder) / "again.pt2"
                torch.export.save(each, file)
                module = torch.export.load(file).module()
                self.check_calls(module, which, TOLERANCE if each is program else DECOMPOSED_TOLERANCE)
                if each is program:
                    self.check_refused(module, which)
        self.check_calls(torch.export.unflatten(program), "unflattened")
        args, kwargs = program.example_inputs or ((), self.inputs(self.tasks["calls"][0]["inputs"]))
        again = torch.export.export(program.module(), args, kwargs, strict=False)
        self.check(len(again.graph.nodes) > 0, "exported again: no graph")

    def check_onnx(self, program):
        import onnxruntime

        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "model.onnx")
            torch.onnx.export(program, f=file, dynamo=True, verbose=False)
            session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
            for call in self.tasks["calls"]:
                feed = {name: value.numpy() for name, value in self.inputs(call["inputs"]).items()}
                actual = [torch.from_numpy(array) for array in session.run(None, feed)]
                worst = difference(actual, self.expected(call))
                # Another runtime, with sums in another order.
                self.check(worst <= 1e-4, f"onnx {call['inputs']}: differs by {worst}")


def one_line(error):
    return " ".join(str(error).split())[:400]


def main():
    folder, models = map(pathlib.Path, sys.argv[1:3])
    only = sys.argv[3:]
    files = sorted(file for file in folder.glob("*.pt2") if not only or file.stem in only)
    importlib.import_module("transformers.exporters.exporter_dynamo")
    failures = 0
    for file in files:
        program = Program(file, models)
        try:
            program.run()
        except Exception as error:  # noqa: BLE001 - any error is a failure of this program
            program.problems.append(f"{type(error).__name__} {one_line(error)}")
        failures += bool(program.problems)
        for problem in program.problems:
            print(f"{file.stem}: {problem}")
    print(f"{len(files)} programs, {failures} failed")
    sys.exit(1 if failures or not files else 0)


if __name__ == "__main__":
    main()
