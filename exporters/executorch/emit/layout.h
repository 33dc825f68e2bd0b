#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace exporters::executorch {

// What the schema files of ExecuTorch leave to prose: the numbers of a .pte file's outer layout.

/// The file identifier at byte 4 of the schema version that this library reads and writes.
constexpr std::string_view kFileIdentifier = "ET12";
/// Program.version of that schema.
constexpr uint32_t kSchemaVersion = 0;

/// The extended header, which a file with segments has at this byte, inside the flatbuffer: magic, u32 length, u64 size
/// of the program (header included), u64 offset of the first segment, u64 bytes of all segments.
constexpr uint64_t kHeaderOffset = 8;
constexpr std::string_view kHeaderMagic = "eh00";
constexpr uint32_t kHeaderLength = 32;
constexpr uint32_t kMinHeaderLength = 24;  ///< older writers leave the last field out

/// Where a segment may begin, counted from the first one, which lies at a multiple of it in the file.
constexpr uint64_t kSegmentAlignment = 128;

/// The number at a byte, aligned or not, which has to be there.
template <typename Number>
Number number_at(std::span<const std::byte> bytes, uint64_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

}  // namespace exporters::executorch
