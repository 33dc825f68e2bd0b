#pragma once

#include "exporters/models/pretrained.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace exporters::models {

/// One supported architecture.
struct ModelEntry {
  std::string_view model_type;                                          ///< as in config.json: "bert"
  std::string_view architecture;                                        ///< the reference's class: "BertForMaskedLM"
  std::string_view task;                                                ///< "fill-mask"; empty where no task names it
  std::unique_ptr<PreTrainedModel> (*make)(const ModelConfig& config);  ///< without weights
  /// See models::cache_boundary.
  std::optional<int64_t> (*cache_boundary)(const ModelConfig& config) = nullptr;
};

/// Every supported architecture, by model type; the bare model first.
std::span<const ModelEntry> list();

/// The entry for a config: by architecture, else by task, else by the config's first architecture, else the bare model.
/// Throws Error for unknown names, with near ones, and when architecture and task disagree.
const ModelEntry& find(const ModelConfig& config, std::string_view task = {}, std::string_view architecture = {});

/// How many tokens a cache may hold and still serve all that follow: when a sequence grows beyond them, generation
/// computes it anew once, and goes on with that cache. Nothing where every cache serves, and for unknown model types.
std::optional<int64_t> cache_boundary(const ModelConfig& config);

}  // namespace exporters::models
