// Ops on numbers that a program reads from tensors or sizes, against the same arithmetic here.
#include "tests/onnx/ops/number_ops.h"
#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/runner.h"
#include "tests/onnx/harness.h"
#include "tests/onnx/support.h"

#include <ATen/ATen.h>

namespace exporters::onnx {
namespace {

using namespace testing;

struct Numbers {
  double a;
  double b;
  int64_t n;
};
constexpr Numbers kNumbers[] = {{0.5, 2.0, 4}, {3.5, -1.5, 1}, {2.0, 2.0, 7}};

TEST(OnnxNumbers, GiveWhatTheirOpsMean) {
  const auto path = scratch_folder() / "model.onnx";
  for (const auto& [op, number] : number_op_programs()) {
    SCOPED_TRACE(op);
    save_model(to_onnx(number.program), path);
    const OnnxRunner runner(path);
    for (const auto& [a, b, n] : kNumbers) {
      const OnnxRunner::Inputs all = {{"x0", at::scalar_tensor(a, at::kDouble)},
                                      {"x1", at::scalar_tensor(b, at::kDouble)},
                                      {"x2", at::zeros({n}, at::kDouble)}};
      const at::Tensor expected = at::full({2}, number.expected(a, b, n), number.gives_bool ? at::kBool : at::kDouble);
      const at::Tensor actual = runner.run(all).at(0).second;
      // float64 throughout: but for the last digit of a power.
      EXPECT_TRUE(number.gives_bool ? at::equal(actual, expected) : at::allclose(actual, expected, 1e-14, 0))
          << a << ", " << b << ", " << n << ": " << actual << "\nnot " << expected;
    }
  }
}

}  // namespace
}  // namespace exporters::onnx
