#pragma once

#include "exporters/support/file_descriptor.h"
#include "tests/fuzz/check.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace exporters::testing {

/// Bytes as a file, for readers that take a path; it lies in memory.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : path_("/dev/shm/exporters_fuzz_" + std::to_string(::getpid())) {
    const FileDescriptor fd(::open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    FUZZ_CHECK(fd.valid());
    FUZZ_CHECK(::write(fd.get(), data, size) == static_cast<ssize_t>(size));
  }
  ~MemoryFile() { ::unlink(path_.c_str()); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace exporters::testing
