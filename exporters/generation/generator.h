#pragma once

#include "exporters/generation/config.h"
#include "exporters/generation/stages.h"

#include <ATen/core/Tensor.h>

#include <functional>

namespace exporters {

/// Called with each row's new token, int64 [batch], as soon as it is chosen; rows that have ended get padding. Returns
/// whether to go on.
using TokenCallback = std::function<bool(const at::Tensor& tokens)>;

/// The loop that makes tokens: transformers' `generate` for greedy search and sampling.
class Generator {
 public:
  Generator(GenerationStages stages, GenerationConfig config);

  /// @param inputs what the reference's generate takes: "input_ids" int64 [batch, length], left-padded, and optionally
  ///        "attention_mask" [batch, length], by default ones, or where the prompt holds pad_token_id and no token that
  ///        ends it, zeros there; "position_ids"; "pixel_values" of the images among the tokens, where the first stage
  ///        takes them; for encoder-decoder models the encoder's inputs, and optionally
  ///        "decoder_input_ids"
  /// @return "sequences", int64 [batch, at most the end length]: the prompt and the tokens after it, rows that ended
  ///         early padded; of encoder-decoder models the decoder's tokens
  /// Throws Error for inputs that generation does not take, for a padded batch where the stages have no mask, and for
  /// lengths beyond the cache.
  at::Tensor generate(const NamedInputs& inputs, const TokenCallback& on_tokens = {}) const;

  const GenerationConfig& config() const { return config_; }

 private:
  class Run;

  GenerationStages stages_;
  GenerationConfig config_;
};

}  // namespace exporters
