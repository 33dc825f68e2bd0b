#pragma once

#include <torch/headeronly/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace exporters {

/// The header of a NumPy .npy file (format versions 1 to 3).
struct NpyHeader {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> shape;
  bool fortran_order = false;  ///< data is in the order of the reversed shape
  bool swapped = false;        ///< data is big-endian
  uint64_t data_start = 0;
  uint64_t nbytes = 0;  ///< of the data
};

/// The longest header that is read.
inline constexpr uint64_t kMaxNpyHeader = 65'536;

/// `start` is the file's beginning, the header at least; `file_size` the whole size. Throws Error, with `name`, for
/// what is not a .npy file, holds other things than numbers, or has another size than its header says.
NpyHeader parse_npy_header(std::span<const std::byte> start, uint64_t file_size, const std::string& name);

}  // namespace exporters
