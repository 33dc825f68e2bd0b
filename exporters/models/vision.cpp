#include "exporters/models/vision.h"

#include "exporters/models/operators.h"
#include "exporters/models/samples.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <ATen/ops/upsample_bicubic2d.h>
#include <c10/util/StringUtil.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace exporters::models {

Extent read_extent(const ModelConfig& config, std::string_view name, int64_t fallback) {
  const auto field = JsonField(config.json(), config.where()).find(name);
  if (!field || !field->is_array()) {
    const int64_t size = config.size(name, fallback);
    return {size, size};
  }
  const std::vector<JsonField> sizes = field->elements();
  if (sizes.size() != 2) {
    field->fail_here(fmt::format("has {} numbers, expected a height and a width", sizes.size()));
  }
  const Extent extent{sizes[0].as_int(), sizes[1].as_int()};
  if (extent.height < 1 || extent.width < 1 || extent.height > ModelConfig::kMaxSize ||
      extent.width > ModelConfig::kMaxSize) {
    field->fail_here(fmt::format("is [{}, {}], expected positive sizes", extent.height, extent.width));
  }
  return extent;
}

ImageTraits read_image_traits(const ModelConfig& config, int64_t image_size, int64_t patch_size) {
  ImageTraits traits;
  traits.channels = config.size("num_channels", 3);
  traits.image = read_extent(config, "image_size", image_size);
  traits.patch = read_extent(config, "patch_size", patch_size);
  if (traits.grid().height < 1 || traits.grid().width < 1) {
    throw Error(fmt::format("config fields \"image_size\" and \"patch_size\" "
                            "are {}x{} and {}x{}: no patch fits in",
                            traits.image.height, traits.image.width, traits.patch.height, traits.patch.width),
                config.where());
  }
  return traits;
}

PatchEmbedding::PatchEmbedding(Scope scope, const ImageTraits& traits, int64_t hidden_size, bool bias)
    : traits_(traits),
      projection_(std::move(scope), {.in_channels = traits.channels,
                                     .out_channels = hidden_size,
                                     .kernel = {traits.patch.height, traits.patch.width},
                                     .stride = {traits.patch.height, traits.patch.width},
                                     .bias = bias}) {}

Patches PatchEmbedding::operator()(const at::Tensor& pixel_values, bool any_size) const {
  require(pixel_values.sym_size(1).sym_eq(traits_.channels), [&] {
    return c10::str("pixel_values are ", pixel_values.sym_sizes(), ", the model takes ", traits_.channels,
                    " channels (num_channels)");
  });
  if (!any_size) {
    const auto message = [&] {
      return c10::str("pixel_values are ", pixel_values.sym_sizes(), ", the model takes images of ",
                      traits_.image.height, "x", traits_.image.width,
                      " (image_size); other sizes need interpolate_pos_encoding");
    };
    require(pixel_values.sym_size(2).sym_eq(traits_.image.height), message);
    require(pixel_values.sym_size(3).sym_eq(traits_.image.width), message);
  }
  const at::Tensor map = projection_(pixel_values.to(projection_.dtype()));
  return {map.flatten(2).transpose(1, 2), map.sym_size(2), map.sym_size(3)};
}

at::Tensor interpolate_positions(const at::Tensor& positions, const c10::SymInt& rows, const c10::SymInt& columns) {
  const int64_t count = positions.size(1);
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(count)));
  ensure(side * side == count, "positions of {} patches cannot be interpolated: they are no square", count);
  const at::Tensor square = positions.reshape({1, side, side, positions.size(2)}).permute({0, 3, 1, 2});
  // In float32: in lower precision, resampling shifts them.
  const at::Tensor resampled = at::upsample_bicubic2d_symint(square.to(c10::ScalarType::Float), {rows, columns},
                                                             /*align_corners=*/false, std::nullopt, std::nullopt);
  return resampled.to(positions.scalar_type()).flatten(2).transpose(1, 2);
}

std::vector<ArgumentSpec> ImageModel::arguments() const {
  using Kind = ArgumentSpec::Kind;
  std::vector<ArgumentSpec> specs = {
      {"pixel_values", Kind::kFloats, {4}},
      {"output_hidden_states", Kind::kFlag},
      {"output_attentions", Kind::kFlag},
      {"return_dict", Kind::kFlag},
      {"labels", Kind::kRefused, {}, 0, "losses are not computed"},
  };
  if (!image_traits_.always_interpolates) {
    specs.insert(specs.begin() + 1, {"interpolate_pos_encoding", Kind::kFlag});
  }
  return specs;
}

ForwardArgs ImageModel::sample_inputs(const SampleSize& size) const {
  ensure(size.past == 0, "{} has no cache for a sample of {} earlier tokens", class_name(), size.past);
  ensure(size.batch >= 1, "a sample has at least one image, not {}", size.batch);
  const ImageTraits& traits = image_traits_;
  return {{"pixel_values", sample_values({size.batch, traits.channels, traits.image.height, traits.image.width},
                                         /*seed=*/0)}};
}

AxisNames ImageModel::axis_names(bool) const {
  const AxisName fixed;
  const bool any_size = image_traits_.always_interpolates;
  return {{"pixel_values",
           {{0, {"batch"}},
            {1, fixed},
            {2, any_size ? AxisName{"height"} : fixed},
            {3, any_size ? AxisName{"width"} : fixed}}}};
}

bool ImageModel::any_size(const ForwardArgs& args) const {
  return image_traits_.always_interpolates || args.flag("interpolate_pos_encoding", false);
}

PyTree PooledOutput::tree() const {
  return PyTree::object("transformers.modeling_outputs.BaseModelOutputWithPooling",
                        {{"last_hidden_state", last_hidden_state},
                         {"pooler_output", pooler_output.defined() ? PyTree(pooler_output) : PyTree()},
                         {"hidden_states", hidden_states},
                         {"attentions", attentions}});
}

}  // namespace exporters::models
