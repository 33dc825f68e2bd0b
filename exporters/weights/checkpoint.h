#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/weights/safetensors.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace exporters {

/// A tensor of a checkpoint and the file it is in.
struct CheckpointEntry {
  std::shared_ptr<const SafetensorsFile> file;
  const SafetensorsEntry* tensor = nullptr;  ///< name, dtype, shape, offset, nbytes; owned by `file`
};

struct ShardIndex;

/// The weights of a transformers checkpoint: one safetensors file, or shards with an index. Opening maps the files
/// and reads their headers; no weight is touched. Copies share the mappings.
class Checkpoint {
 public:
  /// `path` is a folder with model.safetensors or model.safetensors.index.json (where both are, the single file counts,
  /// as in transformers), or a .safetensors or .safetensors.index.json file. Links are followed, as in the hub's cache.
  ///
  /// Throws Error if there are no such files, a shard is missing, damaged, or named by an absolute path or with `..`,
  /// or a tensor of the index is in no shard or two shards hold a tensor that the index does not place. As in
  /// transformers, a tensor that lies in another shard than the index says is taken from there, and one that the index
  /// does not list is taken too, each with a warning.
  static Checkpoint open(const std::filesystem::path& path);

  /// Sorted.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// nullptr if there is none of that name. O(1).
  const CheckpointEntry* find(std::string_view name) const;
  /// A view of the mapped bytes (SafetensorsFile::tensor) and their source. Throws Error, with near names, if there is
  /// none of that name.
  StateTensor load(std::string_view name) const;
  /// As above; what the model asks for may have another name than the parameter it is for.
  StateTensor load(const CheckpointEntry& entry) const;

  /// What was opened: as given to open().
  const std::filesystem::path& path() const { return path_; }
  /// The safetensors files, in the order of their names, links not resolved.
  std::vector<std::filesystem::path> files() const;
  /// Bytes of all tensors.
  uint64_t nbytes() const;
  /// The dtype a model gets when its config names none, found as transformers does: `dtype` in the index's metadata, or
  /// else the first floating-point tensor (no 8-bit floats) by name in the first file, or else the first tensor.
  /// Float for a checkpoint without tensors.
  c10::ScalarType default_dtype() const;

 private:
  void open_single(const std::filesystem::path& path);
  void open_sharded(const std::filesystem::path& index_file);
  void merge_shards(const ShardIndex& index, const std::filesystem::path& folder);
  void check_index(const ShardIndex& index, const std::filesystem::path& index_file) const;

  std::filesystem::path path_;
  std::vector<std::shared_ptr<const SafetensorsFile>> files_;
  std::vector<std::string> names_;
  std::string index_dtype_;
  // Keys are views of the entries' own names.
  std::unordered_map<std::string_view, CheckpointEntry> entries_;
};

}  // namespace exporters
