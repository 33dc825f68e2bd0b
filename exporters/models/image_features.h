#pragma once

#include "exporters/graph/pytree.h"
#include "exporters/models/config.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace exporters::models {

// Images among the tokens of a text, as LLaVA has them (Liu et al., 2023): states of an image encoder are projected,
// and each stands for one token of the text.

/// What a config says of them.
struct ImageFeatureTraits {
  int64_t image_token_id = 0;           ///< stands in the text for each feature
  std::vector<int64_t> feature_layers;  ///< of the image encoder's hidden states; below 0: counted from the last
  bool drops_first_token = false;       ///< the first token of an image, no patch of its own, is left out
};

/// Reads "image_token_index", "vision_feature_layer" and "vision_feature_select_strategy". Throws Error for another
/// strategy than "default" and "full".
ImageFeatureTraits read_image_features(const ModelConfig& config);

/// Where the layers of `traits` are among `count` hidden states. Throws Error for one that there is not.
std::vector<size_t> feature_layers(const ImageFeatureTraits& traits, size_t count);

/// The features that a projector takes: [images, tokens, hidden of each layer].
/// @param hidden_states a tuple of [images, tokens, hidden]; those that are no feature may be None
at::Tensor select_image_features(const ImageFeatureTraits& traits, const PyTree& hidden_states);

/// `embeddings` with the features, in their order, in place of the tokens that `is_image` marks. Where there are more
/// or fewer of them, whatever runs this refuses an index.
/// @param embeddings [batch, sequence, hidden]
/// @param is_image bool [batch, sequence]
/// @param features [images, tokens, hidden], of the embeddings' dtype
at::Tensor merge_image_features(const at::Tensor& embeddings, const at::Tensor& is_image, const at::Tensor& features);

/// Throws Error, with both numbers, unless real tensors `is_image` has as many true values as there are features.
/// @param features how many: images times tokens of each
void check_image_tokens(const at::Tensor& is_image, int64_t features);

}  // namespace exporters::models
