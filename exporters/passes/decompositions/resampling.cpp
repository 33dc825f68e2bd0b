// Pooling, padding and interpolation of fewer axes in terms of two.
#include "exporters/passes/decompositions/families.h"
#include "exporters/passes/decompositions/support.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/replication_pad2d.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_nearest2d.h>

namespace exporters::decompositions {
namespace {

// ── One axis as two, the first of length 1 ──

std::tuple<at::Tensor, at::Tensor> pooled(const DecompositionCall& in) {
  const auto two = [&](const char* name, int64_t first) {
    std::vector<int64_t> sizes{first};
    const std::vector<int64_t> given = in.integers(name);
    if (given.empty()) {
      return given;
    }
    sizes.push_back(given[0]);
    return sizes;
  };
  const auto [output, indices] =
      at::max_pool2d_with_indices(in.tensor("self").unsqueeze(-2), two("kernel_size", 1), two("stride", 1),
                                  two("padding", 0), two("dilation", 1), in.boolean("ceil_mode"));
  return {output.squeeze(-2), indices.squeeze(-2)};
}

Results max_pool1d(const DecompositionCall& in) { return {std::get<0>(pooled(in))}; }
Results max_pool1d_with_indices(const DecompositionCall& in) {
  const auto [output, indices] = pooled(in);
  return {output, indices};
}

Results replication_pad1d(const DecompositionCall& in) {
  const std::vector<c10::SymInt> padding = in.syms("padding");
  const at::Tensor x = in.tensor("self").unsqueeze(-2);
  return {at::replication_pad2d_symint(x, {padding.at(0), padding.at(1), 0, 0}).squeeze(-2)};
}

using Factors = std::optional<at::ArrayRef<double>>;

Results upsample_nearest1d(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self").unsqueeze(-2);
  const std::vector<c10::SymInt> size{c10::SymInt(1), in.syms("output_size").at(0)};
  const std::vector<double> factors{1.0, in.has("scales") ? in.floating("scales") : 0.0};
  if (in.has("scales")) {
    return {at::upsample_nearest2d_symint(x, c10::nullopt, Factors(factors)).squeeze(-2)};
  }
  return {at::upsample_nearest2d_symint(x, at::OptionalSymIntArrayRef(size), c10::nullopt).squeeze(-2)};
}

Results upsample_nearest2d(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  if (in.has("scales_h") && in.has("scales_w")) {
    const std::vector<double> factors{in.floating("scales_h"), in.floating("scales_w")};
    return {at::upsample_nearest2d_symint(x, c10::nullopt, Factors(factors))};
  }
  const std::vector<c10::SymInt> size = in.syms("output_size");
  return {at::upsample_nearest2d_symint(x, at::OptionalSymIntArrayRef(size), c10::nullopt)};
}

Results upsample_bilinear2d(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const bool align = in.boolean("align_corners");
  if (in.has("scales_h") && in.has("scales_w")) {
    const std::vector<double> factors{in.floating("scales_h"), in.floating("scales_w")};
    return {at::upsample_bilinear2d_symint(x, c10::nullopt, align, Factors(factors))};
  }
  const std::vector<c10::SymInt> size = in.syms("output_size");
  return {at::upsample_bilinear2d_symint(x, at::OptionalSymIntArrayRef(size), align, c10::nullopt)};
}

Results upsample_linear1d(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self").unsqueeze(-2);
  const bool align = in.boolean("align_corners");
  if (in.has("scales")) {
    const std::vector<double> factors{1.0, in.floating("scales")};
    return {at::upsample_bilinear2d_symint(x, c10::nullopt, align, Factors(factors)).squeeze(-2)};
  }
  const std::vector<c10::SymInt> size{c10::SymInt(1), in.syms("output_size").at(0)};
  return {at::upsample_bilinear2d_symint(x, at::OptionalSymIntArrayRef(size), align, c10::nullopt).squeeze(-2)};
}

}  // namespace

Table resampling() {
  static constexpr auto kTable = std::to_array<DecompositionEntry>({
      // Their composite kernels take plain numbers for sizes.
      {"aten.upsample_bicubic2d.vec", nullptr},
      {"aten._upsample_bicubic2d_aa.vec", nullptr},
      {"aten.max_pool1d.default", max_pool1d},
      {"aten.max_pool1d_with_indices.default", max_pool1d_with_indices},
      {"aten.replication_pad1d.default", replication_pad1d},
      {"aten.upsample_nearest1d.default", upsample_nearest1d},
      {"aten.upsample_nearest2d.default", upsample_nearest2d},
      {"aten.upsample_bilinear2d.default", upsample_bilinear2d},
      {"aten.upsample_linear1d.default", upsample_linear1d},
  });
  return kTable;
}

}  // namespace exporters::decompositions
