#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace exporters {

/// A model.safetensors.index.json: which shard holds which tensor.
struct ShardIndex {
  std::unordered_map<std::string, std::string> weight_map;  ///< tensor → shard
  std::vector<std::string> shards;                          ///< sorted, each once
  std::string dtype;                                        ///< metadata.dtype, empty if there is none

  /// Throws Error, naming file and entry, for what is not an index or names a shard that is not below the folder.
  static ShardIndex read(const std::filesystem::path& file);
};

}  // namespace exporters
