"""Median latency of the same model in several program files: `latency.py REQUEST.json`; compare writes the request."""

import json
import pathlib
import statistics
import sys
import time

import numpy

WARM_UP = 5
# Before every run: threads of a pool wait for work by spinning, which takes a core from the program whose turn is next.
PAUSE = 0.05  # seconds; ONNX Runtime's spin for about 20 ms


class OnnxProgram:
    def __init__(self, path, threads):
        import onnxruntime  # each format's runtime only where it is measured

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.names = {value.name for value in self.session.get_inputs()}

    def __call__(self, inputs):
        return self.session.run(None, {name: value for name, value in inputs.items() if name in self.names})


class DynamoProgram:
    def __init__(self, path, threads):
        import torch
        from transformers import exporters

        torch.set_num_threads(threads)
        self.torch = torch
        folder = pathlib.Path(path).parent
        self.model = exporters.ExportedModel.from_pretrained(folder, trust_remote_code=True)

    def __call__(self, inputs):
        tensors = {name: self.torch.from_numpy(value) for name, value in inputs.items()}
        with self.torch.inference_mode():
            leaves = self.torch.utils._pytree.tree_leaves(self.model(**tensors))
        return [leaf.numpy() for leaf in leaves]


class ExecutorchProgram:
    ORDER = ("input_ids", "attention_mask", "token_type_ids")  # of the forward: the program takes them by position

    def __init__(self, path, threads):
        import torch
        from executorch.exir._serialize._program import deserialize_pte_binary
        from executorch.extension.pybindings import portable_lib
        from executorch.runtime import Runtime

        portable_lib._unsafe_reset_threadpool(threads)  # before any method is loaded: it would keep the old one
        self.torch = torch
        plan = deserialize_pte_binary(pathlib.Path(path).read_bytes()).program.execution_plan[0]
        self.planned_bytes = sum(plan.non_const_buffer_sizes)
        self.program = Runtime.get().load_program(pathlib.Path(path))
        self.method = self.program.load_method(plan.name)

    def __call__(self, inputs):
        return [output.numpy() for output in self.method.execute(
            [self.torch.from_numpy(inputs[name]) for name in self.ORDER if name in inputs])]


PROGRAMS = {"onnx": OnnxProgram, "dynamo": DynamoProgram, "executorch": ExecutorchProgram}


def interleaved_medians(programs, inputs, runs):
    """Milliseconds per program. The order of the programs turns round from one round to the next."""
    times = {side: [] for side in programs}
    for number in range(-WARM_UP, runs):
        for side in list(programs)[:: 1 if number % 2 else -1]:
            time.sleep(PAUSE)
            start = time.perf_counter()
            programs[side](inputs)
            if number >= 0:
                times[side].append(time.perf_counter() - start)
    return {side: 1000 * statistics.median(values) for side, values in times.items()}


def largest_difference(programs, inputs):
    outputs = [program(inputs) for program in programs.values()]
    if len(outputs) < 2:
        return None
    pairs = zip(*outputs, strict=True)
    return max(float(numpy.abs(a - b).max()) for a, b in pairs)


def main():
    with open(sys.argv[1]) as file:
        request = json.load(file)
    latency = {side: {} for side in request["programs"]}
    differences = []
    for threads in request["threads"]:
        make = PROGRAMS[request["format"]]
        programs = {side: make(path, threads) for side, path in request["programs"].items()}
        for shape, literal in zip(request["shapes"], request["inputs"]):
            inputs = {name: numpy.array(value, dtype=numpy.int64) for name, value in literal.items()}
            name = f"({shape[0]}, {shape[1]}), {threads} thread{'s' if threads > 1 else ''}"
            for side, value in interleaved_medians(programs, inputs, request["runs"]).items():
                latency[side][name] = value
            differences.append(largest_difference(programs, inputs))
    planned = {side: program.planned_bytes for side, program in programs.items() if hasattr(program, "planned_bytes")}
    print(json.dumps({"latency_ms": latency, "planned_bytes": planned,
                      "largest_difference": None if None in differences else max(differences)}))


if __name__ == "__main__":
    main()
