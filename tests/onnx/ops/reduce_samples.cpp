// Reductions, running sums, matrix products.
#include "tests/onnx/ops/op_sample.h"

#include <cmath>

namespace exporters::onnx::testing {

using c10::ScalarType;

OpSamples reduce_samples() {
  const SampleTensor x = f("n m k");
  const SampleTensor experts = ascending(ints("2", "n+1", ScalarType::Int));
  OpSamples samples = {
      {"aten.sum.default", {x}},
      {"aten.sum.dim_IntList", {x, list(1), true}},
      {"aten.sum.default", {bools("n m")}},
      {"aten.mean.default", {x}},
      {"aten.mean.dim", {x, list(0, 2)}},
      {"aten.prod.default", {x}},
      {"aten.prod.dim_int", {x, 1}},
      {"aten.amax.default", {x, list(1)}},
      {"aten.amin.default", {x, list(-1), true}},
      {"aten.max.default", {x}},
      {"aten.min.default", {x}},
      {"aten.max.dim", {x, 1}},
      {"aten.min.dim", {x, -1, true}},
      {"aten.argmax.default", {x, 1}},
      {"aten.argmin.default", {x}},
      {"aten.aminmax.default", {x, kw("dim", 1)}},
      {"aten.all.default", {bools("n m")}},
      {"aten.all.dim", {bools("n m"), 1}},
      {"aten.any.default", {bools("n m")}},
      {"aten.any.dim", {bools("n m"), 1, true}},
      {"aten.logsumexp.default", {x, list(1)}},
      {"aten.linalg_vector_norm.default", {x}},
      {"aten.linalg_vector_norm.default", {x, 1, list(1)}},
      {"aten.linalg_vector_norm.default", {x, 0, list(1)}},
      {"aten.linalg_vector_norm.default", {x, 3, list(1)}},
      {"aten.linalg_vector_norm.default", {x, HUGE_VAL, list(1)}},
      {"aten.linalg_vector_norm.default", {x, -HUGE_VAL, list(1)}},
      {"aten.norm.Scalar", {x}},
      {"aten.norm.ScalarOpt_dim", {x, 1, list(1)}},
      {"aten.norm.ScalarOpt_dim", {x, 0, list(1)}},
      {"aten.norm.ScalarOpt_dim", {x, 3, list(1)}},
      {"aten.norm.ScalarOpt_dim", {x, HUGE_VAL, list(1)}},
      {"aten.norm.ScalarOpt_dim", {x, -HUGE_VAL, list(1)}},
      {"aten.cumsum.default", {x, 1}},
      {"aten.cumsum.default", {bools("n m"), 1}},
      // Products.
      {"aten.linear.default", {f("n m 4"), f("5 4"), f("5")}},
      {"aten.linear.default", {ints("n 4", "9"), ints("5 4", "9"), ints("5", "9")}},
      OpSample{"aten.linear.default", {f("n 4"), f("4")}}.is_refused("not a matrix"),
      {"aten.matmul.default", {f("n m"), f("m k")}},
      {"aten.linalg_matmul.default", {f("2 n m"), f("m k")}},
      {"aten.mm.default", {f("n m"), f("m k")}},
      {"aten.bmm.default", {f("2 n m"), f("2 m k")}},
      {"aten.mv.default", {f("n m"), f("m")}},
      {"aten.dot.default", {f("n"), f("n")}},
      {"aten.outer.default", {f("n"), f("m")}},
      {"aten.addmm.default", {f("k"), f("n m"), f("m k")}},
      {"aten.addmm.default", {f("k"), f("n m"), f("m k"), kw("beta", 0.5), kw("alpha", 2)}},
      {"aten.baddbmm.default", {f("2 n k"), f("2 n m"), f("2 m k"), kw("beta", 0.5), kw("alpha", 2)}},
      {"aten.addbmm.default", {f("n k"), f("2 n m"), f("2 m k"), kw("beta", 0.5), kw("alpha", 2)}},
      {"aten.addmv.default", {f("n"), f("n m"), f("m"), kw("beta", 0.5), kw("alpha", 2)}},
      {"aten.einsum.default", {"ij,jk->ik", list(f("n m"), f("m k"))}},
      {"aten._grouped_mm.default", {f("n 8"), f("2 8 4"), experts}},
      OpSample{"aten._grouped_mm.default", {f("2 4 8"), f("2 8 4")}}.is_refused("groups of rows"),
      {"transformers.grouped_mm_fallback.default", {f("n 8"), f("2 8 4"), experts}},
      OpSample{"transformers.grouped_mm_fallback.default",
               {f("n 8"), f("m 8 4"), ascending(ints("m", "n+1", ScalarType::Int))}}
          .is_refused("groups of rows"),
  };
  for (const char* op : {"aten.var", "aten.std", "aten.var_mean", "aten.std_mean"}) {
    const std::string name = op;
    samples.push_back({name + ".correction", {x, list(1), kw("correction", 0)}});
    samples.push_back({name + ".dim", {x, list(0, 2), false, true}});
  }
  return samples;
}

}  // namespace exporters::onnx::testing
