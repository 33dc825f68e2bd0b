#include "exporters/pt2/transformers_ops.h"

#include "exporters/graph/op_name.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <memory>
#include <mutex>

namespace exporters::pt2 {
namespace {

// transformers/integrations/moe.py: rows of `input` (S, K), sorted by expert, times each expert's weight (E, K, N);
// offsets (E) are where the experts' rows end. Rows behind the last one are zero.
at::Tensor grouped_mm_fallback(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offsets) {
  TORCH_CHECK(input.dim() == 2 && weight.dim() == 3 && offsets.dim() == 1 && offsets.size(0) == weight.size(0) &&
                  input.size(1) == weight.size(1),
              "grouped_mm_fallback takes (S, K), (E, K, N) and (E), not ", input.sizes(), ", ", weight.sizes(), " and ",
              offsets.sizes());
  at::Tensor output = at::zeros({input.size(0), weight.size(2)}, input.options());
  const at::Tensor ends = offsets.to(at::kCPU, at::kLong).contiguous();
  int64_t begin = 0;
  for (int64_t expert = 0; expert < ends.numel(); ++expert) {
    const int64_t end = ends.const_data_ptr<int64_t>()[expert];
    TORCH_CHECK(begin <= end && end <= input.size(0), "grouped_mm_fallback: the rows of expert ", expert, " end at ",
                end);
    if (begin < end) {
      at::Tensor rows = output.slice(0, begin, end);
      at::mm_out(rows, input.slice(0, begin, end), weight[expert]);
    }
    begin = end;
  }
  return output;
}

}  // namespace

void register_transformers_ops() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (find_operator("transformers.grouped_mm_fallback.default")) {
      return;
    }
    // Lives as long as the process: programs keep handles of the op.
    static auto* library =
        new torch::Library(torch::Library::FRAGMENT, "transformers", std::nullopt, __FILE__, __LINE__);
    library->def("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor");
    library->impl("grouped_mm_fallback", torch::dispatch(c10::DispatchKey::CPU, grouped_mm_fallback));
  });
}

}  // namespace exporters::pt2
