"""Writes the small ONNX models of tests/data/onnx with the onnx package: what a foreign writer produces.

usage: make_onnx_fixtures.py [OUT_DIR]"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def typed_fields():
    """Every way in which a tensor carries its values, attributes of every kind, a subgraph, a function."""
    tensors = [
        helper.make_tensor("floats", TensorProto.FLOAT, [3], [1.5, -2.0, 0.25]),
        helper.make_tensor("doubles", TensorProto.DOUBLE, [2], [1e300, -1.0]),
        helper.make_tensor("longs", TensorProto.INT64, [2], [-1, 1 << 40]),
        helper.make_tensor("ints", TensorProto.INT32, [2], [-7, 7]),
        helper.make_tensor("bytes", TensorProto.UINT8, [3], [0, 128, 255]),
        helper.make_tensor("bools", TensorProto.BOOL, [2], [True, False]),
        numpy_helper.from_array(np.array([0.5, 65504.0], np.float16), "halves"),
        numpy_helper.from_array(np.array([[1, 2], [3, 4]], np.int16), "raw_shorts"),
    ]
    then_graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["then_out"])], "then", [],
        [helper.make_tensor_value_info("then_out", TensorProto.FLOAT, ["n"])])
    else_graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["else_out"])], "else", [],
        [helper.make_tensor_value_info("else_out", TensorProto.FLOAT, ["n"])])
    nodes = [
        helper.make_node("If", ["flag"], ["y"], name="choose", then_branch=then_graph, else_branch=else_graph),
        helper.make_node("Custom", ["y", "", "floats"], ["z"], domain="my.domain", name="custom",
                         number=3, ratio=0.5, text="héllo", numbers=[1, -2], ratios=[0.5, 1.0], texts=["a", "b"],
                         value=helper.make_tensor("t", TensorProto.FLOAT, [1], [4.0])),
    ]
    graph = helper.make_graph(
        nodes, "typed",
        [helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
         helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, None])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        tensors)
    function = helper.make_function("my.domain", "Custom", ["a", "b", "c"], ["d"],
                                    [helper.make_node("Add", ["a", "c"], ["d"])], [helper.make_opsetid("", 20)])
    model = helper.make_model(graph, producer_name="maker", producer_version="7",
                              opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("my.domain", 1)],
                              functions=[function], ir_version=10)
    helper.set_model_props(model, {"key": "value"})
    return model


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/onnx")
    out.mkdir(parents=True, exist_ok=True)
    (out / "typed_fields.onnx").write_bytes(typed_fields().SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
