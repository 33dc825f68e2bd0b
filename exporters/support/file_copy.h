#pragma once

#include "exporters/support/atomic_file.h"
#include "exporters/support/byte_sink.h"

#include <cstdint>
#include <filesystem>
#include <functional>

namespace exporters {

struct CopyOptions {
  /// Asks the kernel to forget the pages of both files behind the copy. (The copy itself goes through no memory of this
  /// process, so its resident size does not grow either way.)
  bool drop_cache = false;
  /// Called with the bytes that came to their end since the last call.
  std::function<void(uint64_t)> progress = {};
  /// Is given all bytes of the range, in order and in pieces: for a checksum of what is copied. Each piece is read
  /// once, into a small buffer; blocks are still shared with the source where that is possible. Holes are not read.
  ByteSink inspect = {};
};

/// How a range was copied, in bytes.
struct CopyStats {
  uint64_t cloned = 0;  ///< shares the source's blocks: took no time and no space
  uint64_t copied = 0;  ///< by the kernel, or through a small buffer where the kernel cannot
  uint64_t holes = 0;   ///< of a sparse source: stayed holes
};

/// Copies bytes [offset, offset + nbytes) of `source` to `target_offset` of the open file `target_fd`, which grows if
/// it must. `target_name` is for messages. Throws Error, with both files' names, if the source is shorter than the
/// range, or a file cannot be read or written.
CopyStats copy_range(const std::filesystem::path& source, uint64_t offset, uint64_t nbytes, int target_fd,
                     uint64_t target_offset, const std::filesystem::path& target_name, const CopyOptions& options = {});

/// Appends the range to `target`.
CopyStats append_range(AtomicFile& target, const std::filesystem::path& source, uint64_t offset, uint64_t nbytes,
                       const CopyOptions& options = {});

/// Copies a whole file; the target appears whole or not at all.
CopyStats copy_whole_file(const std::filesystem::path& source, const std::filesystem::path& target,
                          const CopyOptions& options = {});

}  // namespace exporters
