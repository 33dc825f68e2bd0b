#pragma once

#include "exporters/generation/config.h"
#include "exporters/models/pretrained.h"
#include "exporters/trace/trace.h"

#include <memory>
#include <string>
#include <vector>

namespace exporters {

/// One program that generation needs: the model that is called, and with which sample.
struct GenerationComponent {
  std::string name;  ///< "prefill", "decode": the reference's, and a part of the file's name
  std::shared_ptr<const models::PreTrainedModel> model;
  NamedInputs inputs;       ///< of its forward, in the order of its arguments; a cache of sample sizes, without values
  bool with_cache = false;  ///< whether the cache among the inputs holds tokens
  std::string batch = "batch";  ///< what its batch counts, where that is not the rows of a prompt: "images"
};

struct DecomposeOptions {
  /// Sizes stay symbolic in the exports, so that layers with a sliding window grow too, and the mask applies it.
  bool dynamic = true;
  /// The sample of `decode` has two tokens instead of one. An export with symbolic sizes takes any number either way.
  bool multi_token_decode = false;
  /// `decode` alone, which begins from an empty cache too. Needs symbolic sizes, and is not for encoder-decoder models.
  bool merged = false;
};

/// What a generation by this model calls, as the reference's function of this name captures it: "prefill", the whole
/// prompt with an empty cache, and "decode", a token after the cache that prefill returned; before them "encoder",
/// where the model has one, which the reference leaves out. A model of images and text has "image_encoder",
/// "multi_modal_projector", "embed_tokens" (left out there too), "language_model" and "lm_head" in place of "prefill":
/// what a prompt goes through, the features of images put where their tokens are (image_text.h). No weight is touched:
/// the sizes of what one component gives to the next are taken from traces.
/// @param inputs what generate takes; of an encoder-decoder model, the encoder's; of images and text, both. An
/// attention_mask stays an input also where it is all ones, as it has to be for
///        exports that serve padded batches; the reference drops it then
/// @param config use_cache, cache_implementation and max_cache_len count
/// Throws Error when the model cannot generate, without a cache, and where options contradict each other.
std::vector<GenerationComponent> decompose_for_generation(std::shared_ptr<const models::PreTrainedModel> model,
                                                          const NamedInputs& inputs, const GenerationConfig& config,
                                                          const DecomposeOptions& options = {});

}  // namespace exporters
