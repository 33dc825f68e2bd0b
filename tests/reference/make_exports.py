"""Export folders and .pt2 files as the reference writes them: python make_exports.py OUTDIR.

OUTDIR/<case>/ is what transformers.exporters saved of a tiny random BERT, as ONNX, and OUTDIR/dynamo_<case>/ as .pt2, with
io_<shape>.safetensors as `record` of checkpoints.py writes it: what the model itself computed. OUTDIR/pt2/<case>.pt2 are
what torch.export saved of small modules, with io_<case>_<size>.safetensors of "in.<argument>" and "out.<index>".
"""

import os
import sys

from reference_folder import exit_if_current, mark_current

exit_if_current(__file__)

import checkpoints
import make_models

import torch
import transformers
from safetensors.torch import save_file
from torch.export import Dim
from transformers.exporters import DynamoConfig, OnnxConfig, OnnxExporter
from transformers.exporters.exporter_dynamo import DynamoExporter

SHAPES = {"b2s1": (2, 1), "b2s7": (2, 7), "b3s12": (3, 12)}
CASES = {"model": {}, "hidden_states": {"output_hidden_states": True}}


def make_folders(out):
    for case, flags in CASES.items():
        model = transformers.BertModel(transformers.BertConfig(**make_models.CONFIGS["relu"])).eval()
        checkpoints.randomize(model, seed=5)
        model.config.update(flags)
        config = model.config
        inputs = make_models.inputs_for(config, (2, 6), seed=1)
        for folder, exporter, settings in ((case, OnnxExporter(), OnnxConfig(dynamic=True)),
                                           (f"dynamo_{case}", DynamoExporter(), DynamoConfig(dynamic=True))):
            folder = os.path.join(out, folder)
            exporter.export(model, dict(inputs), settings).save_pretrained(folder)
            for name, shape in SHAPES.items():
                path = os.path.join(folder, f"io_{name}.safetensors")
                checkpoints.record(model, path, make_models.inputs_for(config, shape, seed=2))


class Trained(torch.nn.Module):
    """What a forgotten eval() leaves: live dropout, batch statistics, a counter of batches."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.norm(self.fc(x)))


class TrainedImages(torch.nn.Module):
    """The same in two dimensions, with whole channels dropped."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.dropout = torch.nn.Dropout2d(0.3)

    def forward(self, x):
        return self.dropout(torch.relu(self.norm(self.conv(x))))


class Mixed(torch.nn.Module):
    """An unused input, one of which only the shape counts, a nested one, an input that is an output, a constant one."""

    def forward(self, x, pair, mask, unused, scale=2.0):
        return x * scale + pair[0] * mask.shape[1] - pair[1], mask


def save_program(out, case, module, args, kwargs, shapes, recorded):
    """`recorded`: size → (inputs by the names that the export has, the same as a call)."""
    program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes)
    torch.export.save(program, os.path.join(out, "pt2", f"{case}.pt2"))
    for size, (named, call_args, call_kwargs) in recorded.items():
        module.eval()
        with torch.no_grad():
            outputs = module(*call_args, **call_kwargs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        tensors = {f"in.{name}": value.contiguous() for name, value in named.items()}
        tensors.update({f"out.{i}": value.contiguous().clone() for i, value in enumerate(outputs)})
        save_file(tensors, os.path.join(out, "pt2", f"io_{case}_{size}.safetensors"))


def make_programs(out):
    os.makedirs(os.path.join(out, "pt2"))
    torch.manual_seed(3)
    for case, module, tail in (("trained", Trained(), (4,)), ("trained_images", TrainedImages(), (3, 5, 6))):
        module.train()
        for _ in range(3):
            module(torch.randn(6, *tail))
        recorded = {}
        for size in (1, 5):
            x = torch.randn(size, *tail)
            recorded[f"b{size}"] = ({"x": x}, (x,), {})
        save_program(out, case, module, (torch.randn(3, *tail),), {}, {"x": {0: Dim("batch", min=1)}}, recorded)

    def mixed(size, length):
        x, first, second = (torch.randn(size, 3) for _ in range(3))
        mask = torch.randint(0, 2, (2, length))
        unused = torch.ones(length, dtype=torch.bool)
        named = {"x": x, "pair.0": first, "pair.1": second, "mask": mask, "unused": unused}
        return named, (x, [first, second]), {"mask": mask, "unused": unused}

    shapes = {"x": {0: Dim.AUTO}, "pair": [{0: Dim.AUTO}, {0: Dim.AUTO}], "mask": {1: Dim.AUTO}, "unused": {0: Dim.AUTO}}
    _, args, kwargs = mixed(4, 6)
    save_program(out, "mixed", Mixed(), args, kwargs, shapes, {"b2": mixed(2, 9), "b7": mixed(7, 3)})


def main():
    out = sys.argv[1]
    make_folders(out)
    make_programs(out)
    mark_current(__file__)


if __name__ == "__main__":
    main()
