#include "exporters/weights/crc32.h"

#include <zlib.h>

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace exporters {
namespace {

uint32_t with_zlib(std::span<const std::byte> bytes, uint32_t crc) {
  constexpr size_t kStep = size_t{1} << 30;  // zlib counts in 32 bits
  for (size_t done = 0; done < bytes.size();) {
    const size_t count = std::min(kStep, bytes.size() - done);
    crc = static_cast<uint32_t>(
        ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data() + done), static_cast<uInt>(count)));
    done += count;
  }
  return crc;
}

uint32_t joined(uint32_t first, uint32_t second, uint64_t second_nbytes) {
  return static_cast<uint32_t>(::crc32_combine(first, second, static_cast<z_off_t>(second_nbytes)));
}

#if defined(__x86_64__)

// Note [CRC by folding]
// The checksum is the message, taken as a polynomial over GF(2), modulo P = x^32 + x^26 + … + 1. A block of 128 bits
// can be moved n bits ahead by two multiplications with the constants x^(n+32) mod P and x^(n-32) mod P, and then be
// added to the block there; so four blocks at once go through the message, are folded into one, and that is reduced at
// the end (Barrett). All constants are bit-reflected, since the checksum's bits are. See Gopal et al., "Fast CRC
// Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.
struct FoldConstants {
  uint64_t low;
  uint64_t high;
};
constexpr FoldConstants kBy512 = {0x154442bd4, 0x1c6e41596};
constexpr FoldConstants kBy128 = {0x1751997d0, 0x0ccaa009e};
constexpr FoldConstants kBy64 = {0x163cd6124, 0};
constexpr FoldConstants kBarrett = {0x1db710641, 0x1f7011641};
constexpr size_t kBlock = 16;
constexpr size_t kLeastFolded = 4 * kBlock;

#define EXPORTERS_FOLDING __attribute__((target("pclmul,sse4.1")))

EXPORTERS_FOLDING inline __m128i constants(FoldConstants pair) {
  return _mm_set_epi64x(static_cast<int64_t>(pair.high), static_cast<int64_t>(pair.low));
}

EXPORTERS_FOLDING inline __m128i load(const std::byte* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

EXPORTERS_FOLDING inline __m128i fold(__m128i block, __m128i by, __m128i onto) {
  const __m128i low = _mm_clmulepi64_si128(block, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(block, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

EXPORTERS_FOLDING uint32_t reduce(__m128i block) {
  const __m128i low_words = _mm_setr_epi32(-1, 0, -1, 0);
  // 128 bits to 96, to 64.
  block = _mm_xor_si128(_mm_srli_si128(block, 8), _mm_clmulepi64_si128(block, constants(kBy128), 0x10));
  const __m128i upper = _mm_srli_si128(block, 4);
  block = _mm_clmulepi64_si128(_mm_and_si128(block, low_words), constants(kBy64), 0x00);
  block = _mm_xor_si128(block, upper);
  // 64 bits to 32.
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(block, low_words), constants(kBarrett), 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_words), constants(kBarrett), 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(block, quotient), 1));
}

// Whole blocks only, four at least. `state` is the checksum with all bits inverted.
EXPORTERS_FOLDING uint32_t fold_blocks(std::span<const std::byte> bytes, uint32_t state) {
  const std::byte* next = bytes.data();
  size_t left = bytes.size();
  __m128i lanes[4];
  for (size_t i = 0; i < 4; ++i) {
    lanes[i] = load(next + i * kBlock);
  }
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(static_cast<int>(state)));
  const __m128i by_512 = constants(kBy512);
  for (next += 4 * kBlock, left -= 4 * kBlock; left >= 4 * kBlock; next += 4 * kBlock, left -= 4 * kBlock) {
    for (size_t i = 0; i < 4; ++i) {
      lanes[i] = fold(lanes[i], by_512, load(next + i * kBlock));
    }
  }
  const __m128i by_128 = constants(kBy128);
  __m128i block = lanes[0];
  for (size_t i = 1; i < 4; ++i) {
    block = fold(block, by_128, lanes[i]);
  }
  for (; left >= kBlock; next += kBlock, left -= kBlock) {
    block = fold(block, by_128, load(next));
  }
  return reduce(block);
}

bool can_fold() {
  static const bool can = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return can;
}

#endif

}  // namespace

uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (bytes.size() >= kLeastFolded && can_fold()) {
    const size_t folded = bytes.size() / kBlock * kBlock;
    crc = ~fold_blocks(bytes.first(folded), ~crc);
    bytes = bytes.subspan(folded);
  }
#endif
  return with_zlib(bytes, crc);
}

uint32_t crc32_of_zeros(uint64_t nbytes, uint32_t crc) {
  // Of 2^i zeros by joining two halves, for each bit of the count.
  constexpr std::byte kZero{0};
  uint32_t of_power = crc32_of({&kZero, 1});
  for (uint64_t power = 1, left = nbytes; left > 0; power *= 2, left /= 2) {
    if (left % 2 != 0) {
      crc = joined(crc, of_power, power);
    }
    of_power = joined(of_power, of_power, power);
  }
  return crc;
}

}  // namespace exporters
