#include "exporters/support/file_copy.h"

#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace exporters {
namespace {

namespace fs = std::filesystem;

// One step: long enough to be fast, short enough for progress and for dropping pages.
constexpr uint64_t kStep = 64u << 20;
constexpr size_t kBuffer = 1u << 20;

// What the kernel answers where a way of copying is not for these two files.
bool not_supported(int code) {
  constexpr int kCodes[] = {EOPNOTSUPP, EXDEV, EINVAL, ENOSYS, ENOTTY, EBADF, ETXTBSY, EPERM};
  return std::find(std::begin(kCodes), std::end(kCodes), code) != std::end(kCodes);
}

uint64_t size_of(int fd, const fs::path& name) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) {
    fail_errno("Cannot read the size of", name);
  }
  return static_cast<uint64_t>(info.st_size);
}

class RangeCopy {
 public:
  RangeCopy(const fs::path& source, int target_fd, const fs::path& target, const CopyOptions& options)
      : source_(source),
        target_(target),
        source_fd_(open_regular_file(source)),
        target_fd_(target_fd),
        options_(options) {}

  CopyStats run(uint64_t offset, uint64_t nbytes, uint64_t target_offset) {
    uint64_t size = size_of(source_fd_.get(), source_);
    if (offset > size || nbytes > size - offset) {
      fail("Cannot copy bytes {} to {} of {}: it has {}", offset, offset + nbytes, quote(source_.native(), 400),
           bytes_text(size));
    }
    grow_target(target_offset + nbytes);
    shift_ = target_offset - offset;
    uint64_t end = offset + nbytes;
    for (uint64_t position = offset; position < end;) {
      uint64_t data = next(position, end, SEEK_DATA);
      keep_hole(position, data);
      uint64_t hole = data < end ? next(data, end, SEEK_HOLE) : end;
      copy_data(data, hole);
      position = hole;
    }
    return stats_;
  }

 private:
  // Unsigned arithmetic wraps, so the shift may go down as well as up.
  uint64_t in_target(uint64_t position) const { return position + shift_; }

  void grow_target(uint64_t size) {
    if (size_of(target_fd_, target_) < size && ::ftruncate(target_fd_, static_cast<off_t>(size)) != 0) {
      fail_errno("Cannot write", target_);
    }
  }

  // Where the next data or the next hole begins; a filesystem that cannot tell has data everywhere.
  uint64_t next(uint64_t position, uint64_t end, int whence) const {
    off_t found = ::lseek(source_fd_.get(), static_cast<off_t>(position), whence);
    if (found < 0) {
      bool only_hole_left = whence == SEEK_DATA && errno == ENXIO;
      return only_hole_left || whence == SEEK_HOLE ? end : position;
    }
    return std::min(static_cast<uint64_t>(found), end);
  }

  // The target's range is a hole already when the file grew for it; old data there must go.
  void keep_hole(uint64_t begin, uint64_t end) {
    if (begin == end) {
      return;
    }
    off_t data = ::lseek(target_fd_, static_cast<off_t>(in_target(begin)), SEEK_DATA);
    bool is_hole = (data < 0 && errno == ENXIO) || (data >= 0 && static_cast<uint64_t>(data) >= in_target(end));
    if (!is_hole && ::fallocate(target_fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(in_target(begin)), static_cast<off_t>(end - begin)) != 0) {
      write_zeros(in_target(begin), end - begin);
    }
    stats_.holes += end - begin;
    if (options_.inspect.write_zeros) {
      options_.inspect.write_zeros(end - begin);
    }
    report(end - begin);
  }

  void write_zeros(uint64_t position, uint64_t nbytes) {
    std::vector<char> zeros(std::min<uint64_t>(kBuffer, nbytes));
    while (nbytes > 0) {
      uint64_t count = std::min<uint64_t>(zeros.size(), nbytes);
      write_all(zeros.data(), count, position);
      position += count;
      nbytes -= count;
    }
  }

  void copy_data(uint64_t begin, uint64_t end) {
    if (begin == end) {
      return;
    }
    auto [clone_begin, clone_end] = clonable(begin, end);
    if (clone_begin < clone_end && clone(clone_begin, clone_end)) {
      copy_bytes(begin, clone_begin);
      inspect_source(clone_begin, clone_end);
      copy_bytes(clone_end, end);
    } else {
      copy_bytes(begin, end);
    }
  }

  // Whole blocks, at the same place within a block in both files.
  std::pair<uint64_t, uint64_t> clonable(uint64_t begin, uint64_t end) const {
    struct stat info = {};
    if (!may_clone_ || ::fstat(source_fd_.get(), &info) != 0 || info.st_blksize <= 0) {
      return {end, end};
    }
    auto block = static_cast<uint64_t>(info.st_blksize);
    if (shift_ % block != 0) {
      return {end, end};
    }
    return {(begin + block - 1) / block * block, end / block * block};
  }

  bool clone(uint64_t begin, uint64_t end) {
    file_clone_range range = {};
    range.src_fd = source_fd_.get();
    range.src_offset = begin;
    range.src_length = end - begin;
    range.dest_offset = in_target(begin);
    if (::ioctl(target_fd_, FICLONERANGE, &range) != 0) {
      may_clone_ = false;
      return false;
    }
    stats_.cloned += end - begin;
    report(end - begin);
    return true;
  }

  void inspect_source(uint64_t begin, uint64_t end) {
    while (options_.inspect.write && begin < end) {
      const uint64_t done = read_source(begin, end - begin);
      inspect_buffer(done);
      begin += done;
    }
  }

  void inspect_buffer(uint64_t count) const {
    if (options_.inspect.write) {
      options_.inspect.write(std::as_bytes(std::span(buffer_)).first(count));
    }
  }

  void copy_bytes(uint64_t begin, uint64_t end) {
    for (uint64_t position = begin; position < end;) {
      uint64_t count = std::min(end - position, kStep);
      // What the kernel copies is not seen here.
      uint64_t done = may_use_kernel_ && !options_.inspect.write ? copy_in_kernel(position, count) : 0;
      if (done == 0) {
        done = copy_through_buffer(position, count);
      }
      if (options_.drop_cache) {
        drop(position, done);
      }
      position += done;
      stats_.copied += done;
      report(done);
    }
  }

  uint64_t copy_in_kernel(uint64_t position, uint64_t count) {
    auto from = static_cast<off_t>(position);
    auto to = static_cast<off_t>(in_target(position));
    ssize_t done = ::copy_file_range(source_fd_.get(), &from, target_fd_, &to, count, 0);
    if (done > 0) {
      return static_cast<uint64_t>(done);
    }
    if (done < 0 && errno != EINTR && !not_supported(errno)) {
      fail_to_copy(errno);
    }
    may_use_kernel_ = done < 0 && errno == EINTR;
    return 0;
  }

  uint64_t copy_through_buffer(uint64_t position, uint64_t count) {
    const uint64_t got = read_source(position, count);
    inspect_buffer(got);
    write_all(buffer_.data(), got, in_target(position));
    return got;
  }

  // At most a buffer full; gives the number of bytes.
  uint64_t read_source(uint64_t position, uint64_t count) {
    buffer_.resize(kBuffer);
    ssize_t got =
        ::pread(source_fd_.get(), buffer_.data(), std::min<uint64_t>(count, kBuffer), static_cast<off_t>(position));
    if (got < 0) {
      fail_to_copy(errno);
    }
    if (got == 0) {
      fail("Cannot copy {}: it became shorter while it was copied", quote(source_.native(), 400));
    }
    return static_cast<uint64_t>(got);
  }

  void write_all(const char* data, uint64_t count, uint64_t position) {
    while (count > 0) {
      ssize_t written = ::pwrite(target_fd_, data, count, static_cast<off_t>(position));
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written <= 0) {
        fail_to_copy(written < 0 ? errno : ENOSPC);
      }
      data += written;
      position += static_cast<uint64_t>(written);
      count -= static_cast<uint64_t>(written);
    }
  }

  void drop(uint64_t position, uint64_t count) {
    ::posix_fadvise(source_fd_.get(), static_cast<off_t>(position), static_cast<off_t>(count), POSIX_FADV_DONTNEED);
    // Pages that are not on disk yet cannot be dropped.
    ::sync_file_range(target_fd_, static_cast<off_t>(in_target(position)), static_cast<off_t>(count),
                      SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    ::posix_fadvise(target_fd_, static_cast<off_t>(in_target(position)), static_cast<off_t>(count),
                    POSIX_FADV_DONTNEED);
  }

  void report(uint64_t count) const {
    if (options_.progress) {
      options_.progress(count);
    }
  }

  [[noreturn]] void fail_to_copy(int code) const {
    fail("Cannot copy {} to {}: {}", quote(source_.native(), 400), quote(target_.native(), 400), std::strerror(code));
  }

  fs::path source_;
  fs::path target_;
  FileDescriptor source_fd_;
  int target_fd_;
  const CopyOptions& options_;
  uint64_t shift_ = 0;
  bool may_clone_ = true;
  bool may_use_kernel_ = true;
  std::vector<char> buffer_;
  CopyStats stats_;
};

}  // namespace

CopyStats copy_range(const fs::path& source, uint64_t offset, uint64_t nbytes, int target_fd, uint64_t target_offset,
                     const fs::path& target_name, const CopyOptions& options) {
  return RangeCopy(source, target_fd, target_name, options).run(offset, nbytes, target_offset);
}

CopyStats append_range(AtomicFile& target, const fs::path& source, uint64_t offset, uint64_t nbytes,
                       const CopyOptions& options) {
  uint64_t start = target.reserve(nbytes);
  return copy_range(source, offset, nbytes, target.fd(), start, target.target(), options);
}

CopyStats copy_whole_file(const fs::path& source, const fs::path& target, const CopyOptions& options) {
  uint64_t nbytes = size_of(open_regular_file(source).get(), source);
  AtomicFile file(target);
  CopyStats stats = append_range(file, source, 0, nbytes, options);
  file.commit();
  return stats;
}

}  // namespace exporters
