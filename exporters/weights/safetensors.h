#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/support/mapped_file.h"
#include "exporters/weights/safetensors_header.h"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace exporters {

/// A mapped safetensors file. Opening reads the header only, and proves it (parse_safetensors_header).
class SafetensorsFile {
 public:
  /// Throws Error for a file that cannot be read or is not valid.
  static std::shared_ptr<const SafetensorsFile> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_->path(); }
  const std::shared_ptr<const MappedFile>& mapping() const { return file_; }
  /// By offset.
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// nullptr if there is none of that name. O(1).
  const SafetensorsEntry* find(std::string_view name) const;

  /// A contiguous CPU tensor over the mapped bytes: no copy, and it keeps the mapping alive. Not to be written to.
  /// Each call makes a storage of its own. A tensor whose bytes do not lie at a multiple of its element's size is
  /// copied instead (vectorised loops may fault on such addresses), with one warning for the file.
  at::Tensor tensor(const SafetensorsEntry& entry) const;
  /// As above. Throws Error, with near names, if there is none of that name.
  at::Tensor tensor(std::string_view name) const;

  /// Where the bytes lie; `file` has all links resolved.
  WeightSource source(const SafetensorsEntry& entry) const;

 private:
  SafetensorsFile() = default;

  std::shared_ptr<const MappedFile> file_;
  SafetensorsHeader header_;
  std::unordered_map<std::string_view, const SafetensorsEntry*> by_name_;
};

/// Writes tensors in the layout of the format's own writer: by descending alignment, then by name; equal input gives
/// equal bytes, and the file appears whole or not at all. Tensors that are not contiguous or not on the CPU are copied
/// one at a time. Throws Error for a dtype the format has no name for, tensors without data, repeated names, or if
/// the file cannot be written.
void save_safetensors(const std::filesystem::path& path, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace exporters
