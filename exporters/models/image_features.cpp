#include "exporters/models/image_features.h"

#include "exporters/models/operators.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/quote.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/masked_scatter.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sum.h>
#include <nlohmann/json.hpp>

namespace exporters::models {

ImageFeatureTraits read_image_features(const ModelConfig& config) {
  const JsonField root(config.json(), config.where());
  ImageFeatureTraits traits;
  traits.image_token_id = config.integer(config.has("image_token_id") ? "image_token_id" : "image_token_index", 32000);
  const auto layers = root.find("vision_feature_layer");
  if (layers && layers->is_array()) {
    for (const JsonField& layer : layers->elements()) {
      traits.feature_layers.push_back(layer.as_int());
    }
    if (traits.feature_layers.empty()) {
      layers->fail_here("names no layer");
    }
  } else {
    traits.feature_layers = {config.integer("vision_feature_layer", -2)};
  }
  const std::string strategy = config.string("vision_feature_select_strategy", "default");
  traits.drops_first_token = strategy == "default";
  if (strategy != "default" && strategy != "full") {
    throw Error("config field \"vision_feature_select_strategy\" is " + quote(strategy), config.where(),
                "It is \"default\", without the first token of an image, or \"full\"");
  }
  return traits;
}

std::vector<size_t> feature_layers(const ImageFeatureTraits& traits, size_t count) {
  std::vector<size_t> result;
  for (const int64_t layer : traits.feature_layers) {
    const int64_t index = layer < 0 ? layer + static_cast<int64_t>(count) : layer;
    ensure(index >= 0 && index < static_cast<int64_t>(count),
           "config field \"vision_feature_layer\" names layer {}, the image encoder has {} hidden states", layer,
           count);
    result.push_back(static_cast<size_t>(index));
  }
  return result;
}

at::Tensor select_image_features(const ImageFeatureTraits& traits, const PyTree& hidden_states) {
  std::vector<at::Tensor> selected;
  for (const size_t layer : feature_layers(traits, hidden_states.children().size())) {
    const at::Tensor& states = hidden_states.children()[layer].tensor();
    selected.push_back(traits.drops_first_token ? states.slice(1, 1) : states);
  }
  return selected.size() == 1 ? selected.front() : at::cat(selected, -1);
}

// How many tokens the mask marks depends on its values, so no size can say that they are as many as the features. An
// index beyond the features can, in every format: where the numbers differ, all of them are.
at::Tensor merge_image_features(const at::Tensor& embeddings, const at::Tensor& is_image, const at::Tensor& features) {
  const at::Tensor rows = features.flatten(0, 1);
  const at::Tensor places = at::arange(rows.sym_size(0), at::TensorOptions().dtype(c10::ScalarType::Long));
  const at::Tensor count = at::sum(at::ones_like(places));
  const at::Tensor differs = at::ne(at::sum(is_image), count).to(c10::ScalarType::Long);
  const at::Tensor checked = rows.index_select(0, places + differs * count);
  return at::masked_scatter(embeddings, is_image.unsqueeze(-1), checked);
}

void check_image_tokens(const at::Tensor& is_image, int64_t features) {
  const auto tokens = at::sum(is_image).item<int64_t>();
  ensure(tokens == features, "input_ids have {} image tokens, the images give {} features", tokens, features);
}

}  // namespace exporters::models
