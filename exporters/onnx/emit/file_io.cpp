#include "exporters/onnx/emit/file_io.h"

#include "exporters/support/error.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace exporters::onnx {
namespace {

constexpr uint64_t kBlock = 4096;

[[noreturn]] void fail_io(const char* verb, const std::filesystem::path& path) {
  fail("cannot {} {}: {}", verb, path.string(), std::strerror(errno));
}

void copy_by_hand(const File& source, uint64_t from, const File& destination, uint64_t to, uint64_t nbytes) {
  std::vector<char> buffer(std::min<uint64_t>(nbytes, 1 << 20));
  while (nbytes > 0) {
    const ssize_t got =
        pread(source.fd(), buffer.data(), std::min<uint64_t>(nbytes, buffer.size()), static_cast<off_t>(from));
    if (got < 0) {
      fail_io("read", source.path());
    }
    ensure(got > 0, "{} ends at byte {}, before the data that is needed from it", source.path().string(), from);
    destination.write_at(buffer.data(), static_cast<uint64_t>(got), to);
    from += static_cast<uint64_t>(got);
    to += static_cast<uint64_t>(got);
    nbytes -= static_cast<uint64_t>(got);
  }
}

// One extent that holds data.
void copy_extent(const File& source, uint64_t from, const File& destination, uint64_t to, uint64_t nbytes) {
  while (nbytes > 0) {
    auto source_offset = static_cast<off64_t>(from);
    auto destination_offset = static_cast<off64_t>(to);
    const ssize_t copied =
        copy_file_range(source.fd(), &source_offset, destination.fd(), &destination_offset, nbytes, 0);
    if (copied <= 0) {  // other file systems, old kernels: the plain way says what is wrong
      copy_by_hand(source, from, destination, to, nbytes);
      return;
    }
    from += static_cast<uint64_t>(copied);
    to += static_cast<uint64_t>(copied);
    nbytes -= static_cast<uint64_t>(copied);
  }
}

// Shares the whole blocks in the middle of a range; false when the file system does not.
bool share_blocks(const File& source, uint64_t from, const File& destination, uint64_t to, uint64_t nbytes) {
  file_clone_range range{};
  range.src_fd = source.fd();
  range.src_offset = from;
  range.src_length = nbytes;
  range.dest_offset = to;
  return ioctl(destination.fd(), FICLONERANGE, &range) == 0;
}

void copy_extents(const File& source, uint64_t from, const File& destination, uint64_t to, uint64_t nbytes) {
  const uint64_t end = from + nbytes;
  while (from < end) {
    const off_t data = lseek(source.fd(), static_cast<off_t>(from), SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
      return;  // a hole up to the end of the file
    }
    const uint64_t begin = data < 0 ? from : static_cast<uint64_t>(data);
    if (begin >= end) {
      return;
    }
    const off_t hole = data < 0 ? -1 : lseek(source.fd(), static_cast<off_t>(begin), SEEK_HOLE);
    const uint64_t stop = hole < 0 ? end : std::min(end, static_cast<uint64_t>(hole));
    copy_extent(source, begin, destination, to + (begin - from), stop - begin);
    to += stop - from;
    from = stop;
  }
}

}  // namespace

File::File(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}

File File::open_for_reading(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block us
  if (fd < 0) {
    fail_io("open", path);
  }
  File file(fd, path);
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    fail_io("stat", path);
  }
  ensure(S_ISREG(info.st_mode), "{} is not a regular file", path.string());
  return file;
}

File File::create(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    fail_io("create", path);
  }
  return File(fd, path);
}

File::~File() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

File::File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

uint64_t File::size() const {
  struct stat info {};
  if (fstat(fd_, &info) != 0) {
    fail_io("stat", path_);
  }
  return static_cast<uint64_t>(info.st_size);
}

void File::resize(uint64_t size) const {
  if (ftruncate(fd_, static_cast<off_t>(size)) != 0) {
    fail_io("resize", path_);
  }
}

void File::write_at(const void* bytes, uint64_t nbytes, uint64_t offset) const {
  const char* position = static_cast<const char*>(bytes);
  while (nbytes > 0) {
    const ssize_t written = pwrite(fd_, position, nbytes, static_cast<off_t>(offset));
    if (written <= 0) {
      fail_io("write", path_);
    }
    position += written;
    offset += static_cast<uint64_t>(written);
    nbytes -= static_cast<uint64_t>(written);
  }
}

void copy_range(const File& source, uint64_t source_offset, const File& destination, uint64_t destination_offset,
                uint64_t nbytes) {
  uint64_t end = 0;
  ensure(!__builtin_add_overflow(source_offset, nbytes, &end) && end <= source.size(),
         "{} has {} bytes, too few for {} bytes at offset {}", source.path().string(), source.size(), nbytes,
         source_offset);
  const uint64_t head = std::min(nbytes, (kBlock - source_offset % kBlock) % kBlock);
  const uint64_t middle = (nbytes - head) / kBlock * kBlock;
  if (source_offset % kBlock == destination_offset % kBlock && middle > 0 &&
      share_blocks(source, source_offset + head, destination, destination_offset + head, middle)) {
    const uint64_t tail = head + middle;
    copy_extents(source, source_offset, destination, destination_offset, head);
    copy_extents(source, source_offset + tail, destination, destination_offset + tail, nbytes - tail);
    return;
  }
  copy_extents(source, source_offset, destination, destination_offset, nbytes);
}

}  // namespace exporters::onnx
