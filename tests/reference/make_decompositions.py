"""The ops that torch.export leaves of small modules after run_decompositions(): `make_decompositions.py OUTDIR`.

OUTDIR/ops.json: module → sorted targets of its nodes, without operations on sizes and getitem. tests/passes has the same
modules in C++.
"""

import json
import os
import sys

from reference_folder import exit_if_current, mark_current

exit_if_current(__file__)

import torch
import torch.nn.functional as F


def written_in_place(x):
    y = x * 2
    y[:, 0] = 1
    y.add_(x)
    return y


MODULES = {  # name → inputs' shapes (the first axis of the first one is dynamic), forward
    "mlp": (((2, 3, 8), (5, 8), (5,)), lambda x, w, b: F.silu(F.linear(x, w, b))),
    "norm": (((2, 3, 8), (8,), (8,)), lambda x, w, b: F.gelu(F.layer_norm(x, (8,), w, b))),
    "rms_norm": (((2, 3, 8), (8,)), lambda x, w: F.rms_norm(x, (8,), w, 1e-5)),
    "attention": (((2, 4, 5, 6), (2, 4, 5, 6), (2, 4, 5, 6)), F.scaled_dot_product_attention),
    "convolution": (
        ((2, 4, 8, 8), (6, 4, 3, 3), (6,), (6,)),
        lambda x, w, mean, var: F.relu(F.batch_norm(F.conv2d(x, w), mean, var * var)),
    ),
    "softmax": (((2, 3, 8),), lambda x: F.log_softmax(F.softmax(x, -1), 1)),
    "layouts": (((2, 3, 8),), lambda x: torch.stack(x.transpose(1, 2).reshape(-1, 2, 12).chunk(2, 2), 1)),
    "einsum": (((2, 3, 8), (4, 8)), lambda x, w: torch.einsum("bsd,td->bst", x, w)),
    "matmul": (((2, 4, 3, 8), (8, 5)), lambda x, w: torch.matmul(x, w)),
    "in_place": (((2, 3),), written_in_place),
    "arithmetic": (((2, 3), (2, 3)), lambda x, y: torch.addcmul(x, y, 1 - x, value=0.5).square().std(-1)),
    "choices": (((2, 3),), lambda x: x.masked_fill(x > 0, -1.0).clamp_min(-0.5) + torch.tril(x)),
}


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def ops_of(shapes, function):
    inputs = tuple(torch.randn(shape) for shape in shapes)
    # Inputs that share the first one's batch become dynamic with it.
    batch = {index: {0: torch.export.Dim.AUTO} for index, shape in enumerate(shapes) if shape[0] == 2}
    dynamic = (tuple(batch.get(index, {}) for index in range(len(shapes))),)
    program = torch.export.export(Module(function), inputs, dynamic_shapes=dynamic).run_decompositions()
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    return sorted(target for target in targets if target.startswith("aten.") and not target.startswith("aten.sym_"))


def main():
    torch.manual_seed(0)
    ops = {name: ops_of(shapes, function) for name, (shapes, function) in MODULES.items()}
    with open(os.path.join(sys.argv[1], "ops.json"), "w") as file:
        json.dump(ops, file, indent=1)
    mark_current(__file__)


if __name__ == "__main__":
    main()
