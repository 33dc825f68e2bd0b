// Views, joins, splits, tensors made of sizes, random tensors.
#include "tests/onnx/ops/op_sample.h"

namespace exporters::onnx::testing {
namespace {

using c10::ScalarType;

constexpr const char* kIdentities[] = {"alias",       "alias_copy", "clone",           "contiguous", "detach",
                                       "detach_copy", "lift_fresh", "lift_fresh_copy", "lift"};
constexpr const char* kTransposes[] = {"t", "t_copy", "numpy_T", "mT", "adjoint"};

OpSamples reshapes() {
  const SampleTensor x = f("n 6");
  OpSamples samples;
  for (const char* op : {"view", "view_copy", "_unsafe_view", "reshape"}) {
    samples.push_back({std::string("aten.") + op + ".default", {x, list(-1, 3)}});
  }
  const OpSamples more = {
      {"aten.view.dtype", {x, ScalarType::Float}},
      OpSample{"aten.view.dtype", {x, ScalarType::Int}}.is_refused("as another dtype"),
      {"aten._reshape_alias.default", {x, list(size("n", 2), 3), list(3, 1)}},
      {"aten.view_as.default", {x, f("n 2 3")}},
      {"aten.reshape_as.default", {x, f("n 2 3")}},
      {"aten.flatten.using_ints", {f("n 6 m"), 0, 1}},
      {"aten.unflatten.int", {x, 1, list(2, 3)}},
      {"aten.ravel.default", {f("n m")}},
      {"aten.squeeze.dim", {f("n 1 m"), 1}},
      {"aten.squeeze_copy.dim", {f("n 1 m"), -2}},
      {"aten.unsqueeze.default", {f("n m"), -1}},
      {"aten.unsqueeze_copy.default", {f("n m"), 1}},
      {"aten.to.dtype", {f("n m"), ScalarType::Int}},
      {"aten.to.dtype", {f("n m"), ScalarType::Float}},
      OpSample{"aten.to.dtype", {f("n m"), ScalarType::ComplexFloat}}.is_refused("complex"),
      {"aten._to_copy.default", {ints("n m", "9"), kw("dtype", ScalarType::Float)}},
      OpSample{"aten._to_copy.default", {f("n m"), kw("dtype", ScalarType::ComplexFloat)}}.is_refused("complex"),
      {"aten.type_as.default", {f("n m"), ints("n", "9")}},
      {"aten.copy.default", {f("n m"), ints("m", "9")}},
  };
  samples.insert(samples.end(), more.begin(), more.end());
  return samples;
}

OpSamples movements() {
  const SampleTensor x = f("n m 2");
  OpSamples samples;
  for (const char* op : kIdentities) {
    samples.push_back({std::string("aten.") + op + ".default", {x}});
  }
  for (const char* op : kTransposes) {
    samples.push_back({std::string("aten.") + op + ".default", {f("n m")}});
  }
  const OpSamples more = {
      {"aten.permute.default", {x, list(2, 0, 1)}},
      {"aten.permute_copy.default", {x, list(2, 0, 1)}},
      {"aten.transpose.int", {x, 0, -1}},
      {"aten.transpose_copy.int", {x, 0, -1}},
      {"aten.swapaxes.default", {x, 1, 2}},
      {"aten.swapdims.default", {x, 1, 2}},
      {"aten.movedim.int", {x, 0, 2}},
      {"aten.moveaxis.intlist", {x, list(0, 1), list(1, 2)}},
      {"aten.expand.default", {f("1 m"), list(4, -1)}},
      {"aten.expand_copy.default", {f("1 m"), list(4, -1)}},
      {"aten.expand_as.default", {f("1 m"), f("n m")}},
      {"aten.broadcast_to.default", {f("1 m"), list(4, -1)}},
      {"aten.broadcast_tensors.default", {list(f("1 m"), f("n 1"))}},
      {"aten.meshgrid.default", {list(f("n"), f("m"))}},
      {"aten.meshgrid.indexing", {list(f("n"), f("m")), kw("indexing", "xy")}},
      {"aten.repeat.default", {f("n m"), list(2, 1, 3)}},
      {"aten.slice.Tensor", {f("n m"), 1, 1}},
      {"aten.slice_copy.Tensor", {f("n m"), 0, -2, 100, 2}},
      OpSample{"aten.narrow.default", {f("n m"), 0, 1, 2}}.at_least(3),
      OpSample{"aten.narrow_copy.default", {f("n m"), 0, 1, 2}}.at_least(3),
      {"aten.select.int", {f("n m"), 1, -1}},
      {"aten.select_copy.int", {f("n m"), 1, 0}},
      {"aten.split.Tensor", {f("6 m"), 2, 0}},
      {"aten.split_with_sizes.default", {f("6 m"), list(1, 3, 2), 0}},
      {"aten.split_with_sizes_copy.default", {f("6 m"), list(1, 3, 2), 0}},
      {"aten.chunk.default", {f("6 m"), 3, 0}},
      {"aten.tensor_split.sections", {f("7 m"), 3, 0}},
      {"aten.unbind.int", {f("3 m"), 0}},
      {"aten.flip.default", {f("n m"), list(0, 1)}},
      OpSample{"aten.unfold.default", {f("n 3"), 0, 2, 1}}.at_least(2),
      {"aten.diagonal.default", {f("n n")}},
      {"aten.diagonal.default", {f("4 m 5"), 1, 0, 2}},
      // Joins.
      {"aten.cat.default", {list(f("n m"), f("k m")), 0}},
      {"aten.concat.default", {list(f("n m"), f("k m")), 0}},
      {"aten.concatenate.default", {list(f("n m"), f("k m")), 0}},
      {"aten.stack.default", {list(f("n m"), f("n m")), 1}},
      {"aten.constant_pad_nd.default", {f("n m"), list(1, 2), 0.5}},
      {"aten.pad.default", {f("n m"), list(1, 2, 0, 1)}},
      OpSample{"aten.pad.default", {f("2 m"), list(1, 1), "reflect"}}.at_least(2),
      {"aten.pad.default", {f("2 m"), list(1, 1), "replicate"}},
      OpSample{"aten.pad.default", {f("2 n m"), list(1, 1), "circular"}}.at_least(2).at_opset(23),
      OpSample{"aten.pad.default", {f("2 n m"), list(1, 1), "circular"}}.at_opset(18).is_refused("opset 19"),
      OpSample{"aten.reflection_pad1d.default", {f("2 m"), list(1, 1)}}.at_least(2),
      OpSample{"aten.reflection_pad2d.default", {f("2 n m"), list(1, 1, 1, 0)}}.at_least(2),
      OpSample{"aten.reflection_pad3d.default", {f("2 n m k"), list(1, 1, 1, 0, 0, 1)}}.at_least(2),
      {"aten.replication_pad1d.default", {f("2 m"), list(1, 2)}},
      {"aten.replication_pad2d.default", {f("2 n m"), list(1, 1, 1, 0)}},
      {"aten.replication_pad3d.default", {f("2 n m k"), list(1, 1, 1, 0, 0, 1)}},
      {"aten.roll.default", {f("n m"), list(1), list(0)}},
      {"aten.roll.default", {f("n m"), list(2)}},
      {"aten.pixel_shuffle.default", {f("n 8 m k"), 2}},
  };
  samples.insert(samples.end(), more.begin(), more.end());
  return samples;
}

OpSamples factories() {
  const SampleTensor x = f("n m");
  const SampleArg sizes = list(size("n"), 3);
  return {
      {"aten.zeros.default", {sizes}},
      {"aten.zeros_like.default", {x}},
      {"aten.new_zeros.default", {x, sizes}},
      {"aten.zero.default", {x}},
      OpSample{"aten.empty.memory_format", {sizes}}.without_values(),
      OpSample{"aten.empty_like.default", {x}}.without_values(),
      OpSample{"aten.new_empty.default", {x, sizes}}.without_values(),
      OpSample{"aten.empty_strided.default", {sizes, list(3, 1)}}.without_values(),
      OpSample{"aten.new_empty_strided.default", {x, sizes, list(3, 1)}}.without_values(),
      {"aten.ones.default", {sizes}},
      {"aten.ones_like.default", {x}},
      {"aten.new_ones.default", {x, sizes}},
      {"aten.full.default", {sizes, 1.5}},
      {"aten.full_like.default", {x, 2}},
      {"aten.new_full.default", {x, sizes, 2.5}},
      {"aten.fill.Scalar", {x, 2.5}},
      {"aten.fill.Tensor", {x, f("")}},
      {"aten.scalar_tensor.default", {2.5}},
      {"aten.arange.default", {size("n")}},
      {"aten.arange.start_step", {1, size("n", 2), 2}},
      {"aten.linspace.default", {-1.0, 2.0, 5}},
      {"aten.eye.default", {size("n")}},
      {"aten.tril.default", {x, 1}},
      {"aten.triu.default", {ints("n m", "9", ScalarType::Short)}},
  };
}

// The numbers are the runtime's own.
OpSamples draws() {
  const SampleTensor x = f("n m", 0, 1);
  const SampleArg sizes = list(size("n"), 3);
  const OpSamples all = {
      {"aten.rand.default", {sizes}},   {"aten.rand_like.default", {x}},       {"aten.randn.default", {sizes}},
      {"aten.randn_like.default", {x}}, {"aten.randint.default", {9, sizes}},  {"aten.randint.low", {-5, 9, sizes}},
      {"aten.bernoulli.default", {x}},  {"aten.randint_like.default", {x, 9}}, {"aten.bernoulli.p", {x, 0.3}},
  };
  OpSamples samples;
  for (const OpSample& sample : all) {
    samples.push_back(sample.without_values().at_opset(21));
    samples.push_back(sample.at_opset(22).is_refused("random operators"));
  }
  return samples;
}

}  // namespace

OpSamples view_samples() {
  OpSamples samples;
  for (const OpSamples& family : {reshapes(), movements(), factories(), draws()}) {
    samples.insert(samples.end(), family.begin(), family.end());
  }
  return samples;
}

}  // namespace exporters::onnx::testing
