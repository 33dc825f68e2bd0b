#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace exporters {

/// The checksum of zip archives (CRC-32 as zlib has it), carried on over `bytes`; starts from 0. Faster than zlib
/// where the processor multiplies without carry.
uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t crc = 0);
/// The same over `nbytes` zero bytes, in a time that grows with the number of digits of `nbytes`.
uint32_t crc32_of_zeros(uint64_t nbytes, uint32_t crc = 0);

}  // namespace exporters
