#pragma once

#include <torch/headeronly/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// A tensor of a safetensors file, and where its bytes lie.
struct SafetensorsEntry {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> shape;
  uint64_t offset = 0;  ///< of the first byte, from the file's start
  uint64_t nbytes = 0;

  friend bool operator==(const SafetensorsEntry&, const SafetensorsEntry&) = default;
};

struct SafetensorsHeader {
  uint64_t data_start = 0;                      ///< first byte behind the header
  std::vector<SafetensorsEntry> entries;        ///< by offset
  std::map<std::string, std::string> metadata;  ///< `__metadata__`
};

/// The longest header that is read, as in the format's own implementation.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

/// Reads the header of a whole safetensors file and proves it: every tensor's bytes are inside the file, tensors
/// neither overlap nor leave gaps, sizes equal shape × dtype, no name comes twice. Throws Error naming `file`, the
/// declared and the real sizes. Tensor data is not looked at. Names and metadata are the only things allocated, so
/// the cost is bounded by the header's length.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, const std::string& file);

/// The format's name of a dtype ("BF16"), or nothing if it has none.
std::optional<std::string_view> safetensors_dtype_name(c10::ScalarType dtype);
/// The format's own order of dtypes: files list tensors by descending rank, then by name. -1 if it has none.
int safetensors_dtype_rank(c10::ScalarType dtype);

}  // namespace exporters
