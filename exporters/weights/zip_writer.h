#pragma once

#include "exporters/support/atomic_file.h"
#include "exporters/support/byte_sink.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exporters {

/// The headers of a zip archive whose entries are stored, not packed. All have the same time stamp, so that the same
/// entries give the same bytes; zip64 where sizes or offsets need it.
class ZipLayout {
 public:
  /// The local header for an entry of `size` bytes that begins at `offset` of the archive. It is padded so that the
  /// entry's data starts at `residue` modulo `alignment` (a power of two, at most 4096).
  std::string local_header(std::string_view name, uint64_t offset, uint64_t size, uint32_t crc, uint64_t alignment,
                           uint64_t residue = 0) const;
  /// The entry becomes part of the directory.
  void add(std::string_view name, uint64_t offset, uint64_t size, uint32_t crc);
  /// What stands after the last entry, which ends at `offset`.
  std::string directory(uint64_t offset) const;

 private:
  struct Entry {
    std::string name;
    uint64_t offset;
    uint64_t size;
    uint32_t crc;
  };
  std::vector<Entry> entries_;
};

/// Writes a zip archive into a file, entry after entry. Data starts at multiples of 64 bytes, as PyTorch's own writer
/// places it. Names are given once each.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}

  void add(std::string_view name, std::span<const std::byte> data);
  void add(std::string_view name, std::string_view text) { add(name, std::as_bytes(std::span(text))); }
  /// Copies bytes [offset, offset + nbytes) of another file (copy_range); the checksum is made on the way. A long range
  /// is placed so that the filesystem can share its blocks with the source.
  void add_range(std::string_view name, const std::filesystem::path& source, uint64_t offset, uint64_t nbytes,
                 const std::function<void(uint64_t)>& progress = {});
  /// An entry of `nbytes` that `produce` writes into the sink piece by piece; the checksum is made on the way. Runs of
  /// zeros become holes of the file. Throws Error when other than `nbytes` are written.
  void add_pieces(std::string_view name, uint64_t nbytes, const std::function<void(const ByteSink&)>& produce,
                  const std::function<void(uint64_t)>& progress = {});
  /// Writes the directory. Nothing may be added after it.
  void finish();

  /// Of all entries so far: names, sizes and checksums.
  uint64_t digest() const { return digest_; }

 private:
  // The header stands before the data and holds their checksum: its place is kept, and filled in at the end.
  // `header_of(offset, crc)` gives its text, of one length for every crc; `write_data` writes and gives the checksum.
  template <typename HeaderOf, typename WriteData>
  void add_with_late_header(std::string_view name, uint64_t nbytes, HeaderOf header_of, WriteData write_data);
  void record(std::string_view name, uint64_t offset, uint64_t size, uint32_t crc);

  AtomicFile& file_;
  ZipLayout layout_;
  uint64_t digest_ = 0xcbf29ce484222325;
};

/// A whole archive in memory.
std::string zip_text(const std::vector<std::pair<std::string, std::string>>& entries);

}  // namespace exporters
