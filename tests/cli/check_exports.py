"""What Python makes of folders that hfx exported: python check_exports.py HFX MODELS MINILM.

MODELS is what tests/reference/make_models.py wrote, MINILM the all-MiniLM-L6-v2 checkpoint. Each ONNX folder passes ONNX's
full checker with strict shape inference. transformers' own ExportedModel loads each folder, ONNX and .pt2, and returns the
object and the values that the model returns. Of a .pt2, torch.export saves it again and makes its core ATen form.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import onnx
import torch
from safetensors import safe_open
from transformers.exporters import ExportedModel

HEADS = ["BertModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification",
         "BertForQuestionAnswering", "BertForMultipleChoice", "BertForNextSentencePrediction", "BertForPreTraining"]

# fp32 sums of up to 1536 terms in another order.
TOLERANCE = 1e-5


def export(hfx, checkpoint, folder, *more, to="onnx"):
    subprocess.run([hfx, "export", checkpoint, "--to", to, "-o", folder, *more], check=True, stdout=subprocess.DEVNULL)


def check_graph(path):
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(str(path), load_external_data=False)
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    for output in inferred.graph.output:
        assert output.type.tensor_type.HasField("shape"), f"{path}: {output.name} has no shape"


def read_io(path):
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        return tensors, file.metadata()


def flat(value, prefix=""):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if torch.is_tensor(item):
            yield f"{prefix}{key}", item
        else:
            yield from flat(item, f"{prefix}{key}.")


def valid(tensor, mask):
    """The positions whose mask is 1; everything where an output has no position axis."""
    return tensor[mask.bool()] if tensor.shape[: mask.dim()] == mask.shape else tensor


def check_program(path):
    """What else Python does with a .pt2."""
    program = torch.export.load(str(path))
    program.run_decompositions()
    with tempfile.TemporaryDirectory() as work:
        again = os.path.join(work, "again.pt2")
        torch.export.save(program, again)
        assert str(torch.export.load(again).graph) == str(program.graph), path


def check_values(folder, recordings):
    exported = ExportedModel.from_pretrained(folder, trust_remote_code=True)
    for path in recordings:
        tensors, meta = read_io(path)
        inputs = {name[3:]: value for name, value in tensors.items() if name.startswith("in.")}
        expected = {name[4:]: value for name, value in tensors.items() if name.startswith("out.")}
        output = exported(**inputs)
        name = f"{type(output).__module__}.{type(output).__name__}"
        assert name == meta["class"], f"{path}: {name} instead of {meta['class']}"
        assert list(output.keys()) == json.loads(meta["keys"]), f"{path}: {list(output.keys())}"
        actual = dict(flat(output))
        assert actual.keys() == expected.keys(), f"{path}: {list(actual)} instead of {list(expected)}"
        for key, value in expected.items():
            assert actual[key].shape == value.shape and actual[key].dtype == value.dtype, f"{path}: {key}"
            difference = (valid(actual[key], inputs["attention_mask"]) - valid(value, inputs["attention_mask"])).abs()
            assert difference.numel() == 0 or difference.max() <= TOLERANCE, f"{path}: {key} is off by {difference.max():.1e}"


def main():
    hfx, models, minilm = (pathlib.Path(word) for word in sys.argv[1:])
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        export(hfx, minilm, work / "minilm")
        check_graph(work / "minilm" / "model.onnx")
        check_values(work / "minilm", sorted((models / "minilm").glob("io_*.safetensors")))
        for head in HEADS:
            checkpoint = models / "cases" / f"{head}_relu_0"
            plain, recorded = work / head, work / f"{head}_recorded"
            export(hfx, checkpoint, plain)
            export(hfx, checkpoint, recorded, "--forward", "output_hidden_states=true", "output_attentions=true")
            check_graph(plain / "model.onnx")
            check_graph(recorded / "model.onnx")
            check_values(plain, [checkpoint / f"io_{shape}.safetensors" for shape in ("b1s1", "b2s7", "b3s12")])
            check_values(recorded, [checkpoint / "io_b2s7_recorded.safetensors"])
            traced = work / f"{head}_traced"
            export(hfx, checkpoint, traced, to="dynamo")
            check_values(traced, [checkpoint / f"io_{shape}.safetensors" for shape in ("b1s1", "b2s7", "b3s12")])
            check_program(traced / "model.pt2")
        # Other activations, one label, untied embeddings; fp16 and bf16 weights; the oldest opset that is offered.
        for case in ("BertForMaskedLM_gelu_new_0", "BertForSequenceClassification_gelu_new_0", "BertForMaskedLM_float16",
                     "BertModel_bfloat16"):
            export(hfx, models / "cases" / case, work / case)
            check_graph(work / case / "model.onnx")
        export(hfx, models / "cases" / "BertModel_relu_0", work / "opset18", "--set", "opset_version=18")
        check_graph(work / "opset18" / "model.onnx")


if __name__ == "__main__":
    main()
