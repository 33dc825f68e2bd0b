"""Runs the onnx package's full checker, strict shape inference included, on every model below a folder.

usage: check_onnx.py DIR [DIR …]

Prints one line for each model that fails, and exits with 1 if there is any, or if there is none at all to check."""
import pathlib
import sys

import onnx


def problem(path):
    try:
        onnx.checker.check_model(str(path), full_check=True)
        model = onnx.load(str(path), load_external_data=False)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # noqa: BLE001 - whatever the checker throws is its verdict
        return " ".join(str(error).split())[:600]
    return None


def main():
    models = sorted(path for folder in sys.argv[1:] for path in pathlib.Path(folder).rglob("*.onnx"))
    failures = 0
    for path in models:
        verdict = problem(path)
        if verdict:
            failures += 1
            print(f"{path.name}: {verdict}")
    print(f"{len(models)} models, {failures} refused")
    sys.exit(1 if failures or not models else 0)


if __name__ == "__main__":
    main()
