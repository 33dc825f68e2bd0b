#pragma once

#include "exporters/generation/config.h"
#include "exporters/graph/pytree.h"
#include "exporters/models/pretrained.h"
#include "exporters/trace/trace.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace exporters {

/// A call that generation makes: an eager model's forward, or a component of an export on any backend.
struct GenerationStage {
  /// Inputs by name as the forward takes them, the cache as "cache". Gives the forward's output: "logits" [batch,
  /// queries, vocabulary] and "cache"; of an encoder, its output. The caller has no more use for the cache that it
  /// passes: the result's may lie in the same memory.
  std::function<PyTree(NamedInputs)> run;
  std::function<bool(std::string_view input)> takes;
  /// The mask over the cache's room, bool [batch, 1, queries, max_cache_len], instead of [batch, length]: what the
  /// reference passes with a static cache.
  bool prepared_mask = false;
};

/// What the generation loop runs, whoever computes it.
struct GenerationStages {
  /// Encoder-decoder models: runs once; the others get what it gives as "encoder_outputs".
  std::optional<GenerationStage> encoder;
  /// The whole prompt at once. Nothing: `decode` does it, from an empty cache.
  std::optional<GenerationStage> prefill;
  GenerationStage decode;
  /// What the first stage takes as "cache", for so many rows and tokens; None: nothing.
  std::function<PyTree(int64_t batch, int64_t tokens)> empty_cache;

  bool is_encoder_decoder = false;
  /// How many tokens a cache may hold; nothing: it grows.
  std::optional<int64_t> max_cache_len;
  /// See models::keeps_state.
  bool keeps_state = false;
  /// See models::cache_boundary.
  std::optional<int64_t> cache_boundary;
};

/// A model that runs eagerly, with the cache that `config` asks for. The loop throws Error when it cannot generate.
GenerationStages eager_stages(std::shared_ptr<const models::PreTrainedModel> model, const GenerationConfig& config);

}  // namespace exporters
