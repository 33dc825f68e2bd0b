#pragma once

#include "exporters/support/mapped_file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace exporters {

/// A file inside a zip archive.
struct ZipEntry {
  enum class Method : uint16_t { kStored = 0, kDeflated = 8 };

  std::string name;
  Method method = Method::kStored;
  uint64_t offset = 0;      ///< of its (compressed) bytes, from the archive's start
  uint64_t compressed = 0;  ///< bytes in the archive
  uint64_t size = 0;        ///< bytes unpacked
  uint32_t crc = 0;
};

/// A mapped zip archive, read by its central directory; zip64 too. Opening looks at the directory and the entries'
/// local headers only, and proves that all entries lie inside the file, do not overlap and have names of their own.
class ZipArchive {
 public:
  /// Throws Error, naming the file, for what is not a zip archive, is damaged, encrypted, split over several files or
  /// packed in another way than stored or deflated.
  static ZipArchive open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_->path(); }
  const std::shared_ptr<const MappedFile>& mapping() const { return file_; }
  /// In the directory's order; folders are left out.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// nullptr if there is none of that name.
  const ZipEntry* find(std::string_view name) const;

  /// The mapped bytes of a stored entry. Throws Error for a deflated one. The checksum is not looked at.
  std::span<const std::byte> stored_bytes(const ZipEntry& entry) const;
  /// Compares the checksum of a stored entry with its bytes, which are looked at in pieces and not kept resident.
  /// Throws Error as read() does.
  void verify(const ZipEntry& entry) const;
  /// Unpacks the entry into `target` of exactly entry.size bytes, and compares the checksum. Throws Error, naming
  /// archive and entry, if the data is damaged.
  void read(const ZipEntry& entry, std::span<std::byte> target) const;
  /// The first bytes of the entry, at most `count`: for looking at a header before the whole is unpacked.
  std::vector<std::byte> read_start(const ZipEntry& entry, uint64_t count) const;

 private:
  explicit ZipArchive(std::shared_ptr<const MappedFile> file);

  std::shared_ptr<const MappedFile> file_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string, size_t> by_name_;
};

}  // namespace exporters
