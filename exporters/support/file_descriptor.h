#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "exporters/support/error.h"
#include "exporters/support/quote.h"

namespace exporters {

/// Owns a POSIX file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) {
      ::close(std::exchange(fd_, -1));
    }
  }

 private:
  int fd_ = -1;
};

/// Throws "<action> <path>: <the system's words for errno>".
[[noreturn]] inline void fail_errno(std::string_view action, const std::filesystem::path& path, int code = errno) {
  fail("{} {}: {}", action, quote(path.native(), 400), std::strerror(code));
}

/// Opens a regular file for reading; throws Error, naming the file, for anything else. Never blocks on a pipe.
FileDescriptor open_regular_file(const std::filesystem::path& path);

}  // namespace exporters
