#pragma once

#include "exporters/models/pretrained.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace exporters::models {

class DecoderModel;

/// One supported architecture.
struct ModelEntry {
  std::string_view model_type;                                          ///< as in config.json: "bert"
  std::string_view architecture;                                        ///< the reference's class: "BertForMaskedLM"
  std::string_view task;                                                ///< "fill-mask"; empty where no task names it
  std::unique_ptr<PreTrainedModel> (*make)(const ModelConfig& config);  ///< without weights
  /// See models::cache_boundary.
  std::optional<int64_t> (*cache_boundary)(const ModelConfig& config) = nullptr;
  /// Of the bare model of a decoder: makes it at a place, as a part of another model.
  std::unique_ptr<DecoderModel> (*decoder)(Scope scope, const ModelConfig& config) = nullptr;
  bool keeps_state = false;  ///< see models::keeps_state
};

/// Every supported architecture, by model type; the bare model first.
std::span<const ModelEntry> list();

/// The entry for a config: by architecture, else by task, else by the config's first architecture, else the bare model.
/// Throws Error for unknown names, with near ones, and when architecture and task disagree.
const ModelEntry& find(const ModelConfig& config, std::string_view task = {}, std::string_view architecture = {});

/// The bare decoder of a config's model type, as a part of another model. Throws Error for other model types.
std::unique_ptr<DecoderModel> make_decoder(Scope scope, const ModelConfig& config);

/// How many tokens a cache may hold and still serve all that follow: when a sequence grows beyond them, generation
/// computes it anew once, and goes on with that cache. Nothing where every cache serves, and for unknown model types.
std::optional<int64_t> cache_boundary(const ModelConfig& config);

/// Whether the cache is a state of one size, however many tokens it has seen, instead of something for each of them:
/// then attention_mask is one of the new tokens, and tokens that follow a padded prompt need none. False for unknown
/// model types.
bool keeps_state(const ModelConfig& config);

}  // namespace exporters::models
