"""Export folders as the reference writes them: python make_exports.py OUTDIR.

OUTDIR/<case>/ is what transformers.exporters saved of a tiny random BERT, with io_<shape>.safetensors as in make_models.py:
what the model itself computed.
"""

import os
import sys

from reference_folder import exit_if_current, mark_current

exit_if_current(__file__)

import transformers
from transformers.exporters import OnnxConfig, OnnxExporter

import make_models

SHAPES = {"b2s1": (2, 1), "b2s7": (2, 7), "b3s12": (3, 12)}
CASES = {"model": {}, "hidden_states": {"output_hidden_states": True}}


def main():
    out = sys.argv[1]
    for case, flags in CASES.items():
        model = transformers.BertModel(transformers.BertConfig(**make_models.CONFIGS["relu"])).eval()
        make_models.randomize(model, seed=5)
        model.config.update(flags)
        config = model.config
        folder = os.path.join(out, case)
        inputs = make_models.inputs_for(config, (2, 6), seed=1)
        OnnxExporter().export(model, inputs, OnnxConfig(dynamic=True)).save_pretrained(folder)
        for name, shape in SHAPES.items():
            path = os.path.join(folder, f"io_{name}.safetensors")
            make_models.record(model, path, make_models.inputs_for(config, shape, seed=2))
    mark_current(__file__)


if __name__ == "__main__":
    main()
