#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace exporters {

/// A regular file mapped into memory; nothing is read until it is looked at. The mapping is private and
/// copy-on-write where the system grants that: a stray write through a tensor view changes neither the file nor
/// other processes, and does not crash. Always handled by shared_ptr, so that views can keep it alive.
class MappedFile {
 public:
  /// Throws Error, naming the file, if it is missing, not a regular file (also a pipe: never blocks) or unreadable.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// As it was given: what messages name.
  const std::filesystem::path& path() const { return path_; }
  /// Absolute, with all links resolved: two mappings of one file have the same.
  const std::string& identity() const { return identity_; }
  uint64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// The bytes [offset, offset + nbytes). Throws Error if they are not all inside the file.
  std::span<const std::byte> bytes(uint64_t offset, uint64_t nbytes) const;

  /// The file at path() is still the one that was mapped, with the size and modification time it had.
  bool unchanged() const;

  /// Hints to the kernel about [offset, offset + nbytes), clamped to the file. They never fail.
  void advise_sequential(uint64_t offset, uint64_t nbytes) const;
  void advise_will_need(uint64_t offset, uint64_t nbytes) const;
  /// Gives the resident pages back: reading on through the mapping does not add up in the process's memory. Whole
  /// pages inside the range only. What was written into the private mapping there is lost.
  void advise_dont_need(uint64_t offset, uint64_t nbytes) const;

 private:
  struct Stamp {
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
  };

  MappedFile() = default;
  void advise(uint64_t offset, uint64_t nbytes, int advice, bool whole_pages) const;

  std::filesystem::path path_;
  std::string identity_;
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  Stamp stamp_;
};

}  // namespace exporters
