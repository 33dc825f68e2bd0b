#pragma once

#include "exporters/generation/stages.h"
#include "exporters/models/image_features.h"

#include <functional>

namespace exporters {

/// The parts of a model of images and text, whoever computes them: models::ImageTextParts.
struct ImageTextStages {
  std::function<PyTree(NamedInputs)> image_encoder;
  std::function<PyTree(NamedInputs)> projector;
  std::function<PyTree(NamedInputs)> embed_tokens;
  GenerationStage language_model;
  std::function<PyTree(NamedInputs)> lm_head;
  models::ImageFeatureTraits features;
};

/// A whole prompt through those parts, as one stage: it takes what the language model does, with "input_ids" in place
/// of embeddings, and "pixel_values", without which the prompt is text alone. Gives the scores of the last position,
/// and the cache. It throws Error when the prompt has not one token of images for each feature.
GenerationStage image_text_prefill(ImageTextStages stages);

}  // namespace exporters
