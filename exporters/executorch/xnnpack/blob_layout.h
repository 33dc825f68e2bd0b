#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace exporters::executorch::xnnpack {

// What the schema of XNNPACK's delegates leaves to prose: the header before the flatbuffer, and XNNPACK's own numbers.

/// At byte 4 of a blob, after four zeros. Behind it: u16 length of the header, u32 offset and u32 bytes of the
/// flatbuffer, u32 offset and u64 bytes of the constants.
constexpr std::string_view kMagic = "XH00";
constexpr size_t kMagicOffset = 4;
constexpr uint16_t kHeaderLength = 30;

constexpr uint32_t kNoValue = std::numeric_limits<uint32_t>::max();  ///< XNN_INVALID_VALUE_ID
constexpr uint32_t kFlagTransposeWeights = 1;                        ///< XNN_FLAG_TRANSPOSE_WEIGHTS
constexpr size_t kMaxDims = 6;                                       ///< XNN_MAX_TENSOR_DIMS

}  // namespace exporters::executorch::xnnpack
