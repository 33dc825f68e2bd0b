#pragma once

#include <cstdint>

/// What reader and writer of zip archives agree on: PKWARE's APPNOTE.TXT 6.3. All numbers are little-endian.
namespace exporters::zip {

inline constexpr uint32_t kLocalHeader = 0x04034b50;
inline constexpr uint32_t kDirectoryHeader = 0x02014b50;
inline constexpr uint32_t kEnd = 0x06054b50;
inline constexpr uint32_t kEnd64 = 0x06064b50;
inline constexpr uint32_t kEnd64Locator = 0x07064b50;
inline constexpr uint16_t kZip64Field = 1;

}  // namespace exporters::zip
