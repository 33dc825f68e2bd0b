#pragma once

#include <cstdint>
#include <filesystem>

namespace exporters::onnx {

/// An open file descriptor that closes itself.
class File {
 public:
  /// Throws Error when the file cannot be opened, or is not a regular file.
  static File open_for_reading(const std::filesystem::path& path);
  static File create(const std::filesystem::path& path);
  ~File();
  File(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const;
  /// Throws Error when the file system has no room.
  void resize(uint64_t size) const;
  void write_at(const void* bytes, uint64_t nbytes, uint64_t offset) const;

 private:
  File(int fd, std::filesystem::path path);
  int fd_ = -1;
  std::filesystem::path path_;
};

/// Copies a range between files: blocks are shared where the file system can (the offsets must then be congruent modulo
/// its block size), else the kernel copies. Holes of the source are skipped, so `destination` must hold zeros there.
/// Throws Error when the source ends early, and on I/O failures.
void copy_range(const File& source, uint64_t source_offset, const File& destination, uint64_t destination_offset,
                uint64_t nbytes);

}  // namespace exporters::onnx
