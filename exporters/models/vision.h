#pragma once

#include "exporters/models/encoder.h"
#include "exporters/models/layers/convolution.h"
#include "exporters/models/pretrained.h"

#include <c10/core/SymInt.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace exporters::models {

// What models of images share: their inputs, patches, and the positions of
// patches.

struct Extent {
  int64_t height = 0;
  int64_t width = 0;
};

/// A config field that is one number for both, or [height, width].
Extent read_extent(const ModelConfig& config, std::string_view name, int64_t fallback);

/// The images that a model takes, and the patches that it cuts them into.
struct ImageTraits {
  int64_t channels = 3;
  Extent image;
  Extent patch;
  /// Positions are interpolated for images of any size; else that is asked for
  /// with `interpolate_pos_encoding`.
  bool always_interpolates = false;

  Extent grid() const { return {image.height / patch.height, image.width / patch.width}; }
  int64_t patches() const { return grid().height * grid().width; }
};

/// Of num_channels, image_size and patch_size. Throws Error where an image has
/// no patch.
ImageTraits read_image_traits(const ModelConfig& config, int64_t image_size, int64_t patch_size);

/// The first layer: a convolution that turns each patch into a token.
struct Patches {
  at::Tensor tokens;  ///< [batch, patches, hidden]
  c10::SymInt rows = 0;
  c10::SymInt columns = 0;
};

class PatchEmbedding {
 public:
  PatchEmbedding(Scope scope, const ImageTraits& traits, int64_t hidden_size, bool bias = true);
  /// @param pixel_values [batch, channels, height, width], of any floating
  /// dtype. Throws Error for other sizes than the model's, unless `any_size`,
  /// and for other numbers of channels.
  Patches operator()(const at::Tensor& pixel_values, bool any_size) const;

 private:
  ImageTraits traits_;
  Convolution projection_;
};

/// Positions learned for a square of patches, resampled for another grid: [1,
/// patches, width] → [1, rows * columns, width]. For the same grid, they stay
/// as they are.
at::Tensor interpolate_positions(const at::Tensor& positions, const c10::SymInt& rows, const c10::SymInt& columns);

/// What models with images as their only inputs share.
class ImageModel : public PreTrainedModel {
 public:
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;

 protected:
  ImageModel(Scope scope, std::string class_name, const ModelConfig& config, const ImageTraits& traits)
      : PreTrainedModel(std::move(scope), std::move(class_name), config), image_traits_(traits) {}
  const ImageTraits& image_traits() const { return image_traits_; }
  /// Whether the images of this call may have any size.
  bool any_size(const ForwardArgs& args) const;

 private:
  ImageTraits image_traits_;
};

/// The last hidden state and what goes with it, as BaseModelOutputWithPooling.
struct PooledOutput {
  at::Tensor last_hidden_state;
  at::Tensor pooler_output;  ///< may be undefined
  PyTree hidden_states;
  PyTree attentions;

  PyTree tree() const;
};

}  // namespace exporters::models
