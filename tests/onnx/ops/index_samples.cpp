// Reading and writing by index or mask, sorting, searching, counting.
#include "tests/onnx/ops/op_sample.h"

namespace exporters::onnx::testing {

using c10::ScalarType;

OpSamples index_samples() {
  const SampleTensor x = f("n m");
  OpSamples samples = {
      {"aten.embedding.default", {f("7 4"), ints("n m", "7")}},
      {"aten.index_select.default", {x, 1, ints("k", "m")}},
      {"aten.gather.default", {x, 1, ints("n k", "m")}},
      {"aten.take.default", {x, ints("k", "n*m")}},
      {"aten.take_along_dim.default", {x, ints("n k", "m"), 1}},
      {"aten.take_along_dim.default", {x, ints("k", "n*m")}},
      {"aten.nonzero.default", {bools("n m")}},
      OpSample{"aten.nonzero.default", {bools("")}}.is_refused("0-d"),
      {"aten.masked_select.default", {x, bools("n m")}},
      {"aten.masked_select.default", {x, bools("m")}},
      {"aten.one_hot.default", {ints("n m", "5"), 5}},
      // Writing.
      {"aten.scatter.src", {x, 1, permutation("n m", "m"), f("n m")}},
      {"aten.scatter.value", {x, 1, ints("n k", "m"), 2.5}},
      {"aten.scatter.reduce", {x, 1, ints("n k", "m"), f("n k"), kw("reduce", "add")}},
      {"aten.scatter.value_reduce", {x, 1, ints("n k", "m"), 2.5, kw("reduce", "multiply")}},
      {"aten.scatter_add.default", {x, 1, ints("n k", "m"), f("n k")}},
      {"aten.index_add.default", {x, 1, ints("k", "m"), f("n k")}},
      {"aten.index_add.default", {x, 0, ints("k", "n"), f("k m"), kw("alpha", 2)}},
      OpSample{"aten.index_copy.default", {x, 1, permutation("2", "m"), f("n 2")}}.at_least(2),
      OpSample{"aten.index_copy.default", {x, 0, permutation("2", "n"), f("2 m")}}.at_least(2),
      {"aten.index_fill.int_Scalar", {x, 1, ints("k", "m"), 3.5}},
      OpSample{"aten.slice_scatter.default", {x, f("n 2"), 1, 0, 2}}.at_least(2),
      {"aten.slice_scatter.default", {x, f("n m"), 1}},
      {"aten.select_scatter.default", {x, f("n"), 1, -1}},
      {"aten.masked_scatter.default", {x, bools("n m"), f("n*m")}},
      // Sorting, searching, counting.
      {"aten.sort.default", {x, 1, true}},
      {"aten.sort.stable", {x, kw("stable", true), kw("dim", 0)}},
      {"aten.argsort.default", {x, 1}},
      OpSample{"aten.topk.default", {x, 2}}.at_least(2),
      OpSample{"aten.kthvalue.default", {x, 2, 1}}.at_least(2),
      OpSample{"aten.kthvalue.default", {x, 2, 0, true}}.at_least(2),
      {"aten.bucketize.Tensor", {x, ascending(f("5"))}},
      {"aten.bucketize.Tensor", {ints("n m", "6"), ascending(ints("5", "6")), kw("right", true)}},
      {"aten.searchsorted.Tensor", {ascending(f("5")), x}},
      {"aten.searchsorted.Tensor", {ascending(ints("n 5", "6")), ints("n m", "6"), kw("side", "right")}},
      OpSample{"aten.searchsorted.Tensor", {f("5"), x, kw("sorter", permutation("5", "5"))}}.is_refused("sorter"),
      {"aten.bincount.default", {ints("n", "6")}},
      {"aten.bincount.default", {ints("n", "6"), f("n"), 9}},
      {"aten.repeat_interleave.Tensor", {ints("n", "4")}},
      {"aten.repeat_interleave.self_int", {x, 3, 1}},
      {"aten.repeat_interleave.self_int", {x, 2}},
      {"aten.repeat_interleave.self_Tensor", {x, ints("n", "4"), 0}},
  };
  for (const char* op : {"aten.index.Tensor", "aten._unsafe_index.Tensor"}) {
    samples.push_back({op, {x, list(ints("k", "n"))}});
    samples.push_back({op, {f("2 n m"), list(none(), ints("k", "n"), ints("k", "m"))}});
    samples.push_back({op, {f("n 2 m"), list(ints("k", "n"), none(), ints("k", "m"))}});
  }
  samples.push_back({"aten.index.Tensor", {x, list(bools("n"))}});
  for (const char* op : {"aten.index_put.default", "aten._unsafe_index_put.default"}) {
    samples.push_back({op, {x, list(bools("n m")), f("")}});
    samples.push_back(OpSample{op, {x, list(permutation("2", "n")), f("2 m")}}.at_least(2));
    samples.push_back({op, {x, list(ints("k", "n")), f("k m"), true}});
    samples.push_back(
        OpSample{op, {f("2 n m"), list(none(), permutation("2", "n"), ints("2", "m")), f("2 2")}}.at_least(2));
  }
  for (const char* mode : {"sum", "prod", "mean", "amax", "amin"}) {
    samples.push_back({"aten.scatter_reduce.two", {x, 1, ints("n k", "m"), f("n k"), mode}});
    samples.push_back({"aten.scatter_reduce.two", {x, 1, ints("n k", "m"), f("n k"), mode, kw("include_self", false)}});
  }
  samples.push_back({"aten.scatter_reduce.two", {ints("n m", "9"), 1, ints("n k", "m"), ints("n k", "9"), "mean"}});
  samples.push_back(OpSample{"aten.scatter_reduce.two", {f(""), 0, ints("", "1"), f(""), "sum"}}.is_refused("0-d"));
  return samples;
}

}  // namespace exporters::onnx::testing
