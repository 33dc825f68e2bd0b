"""Checks with executorch's own Python what the tests of this room wrote into a folder.

Every .pte file is read by executorch's deserializer and run by its Python runtime on the inputs beside it; the memory
plans are compared with those of executorch's greedy planner on the same lifetimes.
"""

import json
import pathlib
import sys

import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.memory_planning import greedy
from executorch.runtime import Runtime

DTYPES = {"Float": torch.float32, "Double": torch.float64, "BFloat16": torch.bfloat16, "Long": torch.int64, "Int": torch.int32, "Half": torch.float16, "Bool": torch.bool}


def tensor(entry):
    values = [float(value) for value in entry["values"]]  # "inf" and "nan" are no JSON numbers
    return torch.tensor(values, dtype=torch.float64).to(DTYPES[entry["dtype"]]).reshape(entry["shape"])


def check_file(path):
    data = path.read_bytes()
    plan = deserialize_pte_binary(data).program.execution_plan[0]
    assert plan.values and plan.chains[0].instructions, f"{path.name}: an empty plan"
    call = json.loads(path.with_suffix(".json").read_text())
    # The runtime borrows: a method is good only as long as the program and its bytes are there.
    program = Runtime.get().load_program(data)
    method = program.load_method(plan.name)
    outputs = method.execute([tensor(entry) for entry in call["inputs"]])
    assert len(outputs) == len(call["outputs"])
    for got, entry in zip(outputs, call["outputs"]):
        torch.testing.assert_close(got, tensor(entry), rtol=1e-5, atol=1e-5, equal_nan=True)


class Spec:
    """What the planner asks of a TensorSpec."""

    mem_id = None
    storage_base = None

    def __init__(self, nbytes, first, last):
        self.allocated_memory = nbytes
        self.lifetime = [first, last]

    def realign(self, alignment):
        self.allocated_memory = -(-self.allocated_memory // alignment) * alignment


def check_plans(path):
    cases = json.loads(path.read_text())
    ours = theirs = 0
    for case in cases:
        specs = [Spec(*row) for row in case["lifetimes"]]
        size = greedy(16, specs, object(), None).bufsizes[1]
        assert case["size"] <= size, f"{case['size']} bytes planned, executorch needs {size}"
        ours += case["size"]
        theirs += size
    print(f"{len(cases)} plans: {ours} bytes, executorch's greedy planner {theirs}")


def main():
    folder = pathlib.Path(sys.argv[1])
    files = sorted(folder.glob("*.pte"))
    assert files, f"{folder} has no .pte file"
    for path in files:
        check_file(path)
    print(f"{len(files)} programs read and run")
    check_plans(folder / "memory_plans.json")


if __name__ == "__main__":
    main()
