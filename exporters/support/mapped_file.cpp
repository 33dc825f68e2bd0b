#include "exporters/support/mapped_file.h"

#include "exporters/support/error.h"
#include "exporters/support/file_descriptor.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace exporters {
namespace {

struct Kind {
  mode_t type;
  const char* name;
};
constexpr Kind kKinds[] = {
    {S_IFDIR, "a folder"}, {S_IFIFO, "a pipe"}, {S_IFSOCK, "a socket"}, {S_IFCHR, "a device"}, {S_IFBLK, "a device"}};

const char* kind_name(mode_t mode) {
  for (const Kind& kind : kKinds) {
    if ((mode & S_IFMT) == kind.type) {
      return kind.name;
    }
  }
  return "not a regular file";
}

[[noreturn]] void fail_to_open(const std::filesystem::path& path, int code) {
  std::error_code ignored;
  if (code == ENOENT && std::filesystem::is_symlink(path, ignored)) {
    std::filesystem::path target = std::filesystem::read_symlink(path, ignored);
    throw Error("Cannot open " + quote(path.native(), 400) + ": it is a link to " + quote(target.native(), 400) +
                    ", which does not exist",
                {}, "Download the file again, or copy the folder with its links resolved.");
  }
  fail_errno("Cannot open", path, code);
}

// A private writable mapping is not charged to memory with MAP_NORESERVE; where the system is strict about that,
// a read-only one does.
void* map(int fd, uint64_t size) {
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  return data != MAP_FAILED ? data : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
}

}  // namespace

FileDescriptor open_regular_file(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must fail the check below instead of waiting for a writer.
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    fail_to_open(path, errno);
  }
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) {
    fail_errno("Cannot read the size of", path);
  }
  if (!S_ISREG(info.st_mode)) {
    fail("Cannot read {}: it is {}, and a regular file is needed", quote(path.native(), 400), kind_name(info.st_mode));
  }
  return fd;
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  FileDescriptor fd = open_regular_file(path);
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) {
    fail_errno("Cannot read the size of", path);
  }
  std::shared_ptr<MappedFile> file(new MappedFile());
  std::error_code code;
  file->path_ = path;
  file->identity_ = std::filesystem::canonical(path, code).native();
  if (code) {
    fail_errno("Cannot resolve", path, code.value());
  }
  file->stamp_ = {info.st_dev, info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
  if (info.st_size > 0) {
    void* data = map(fd.get(), static_cast<uint64_t>(info.st_size));
    if (data == MAP_FAILED) {
      fail_errno("Cannot map", path);
    }
    file->data_ = static_cast<std::byte*>(data);
    file->size_ = static_cast<uint64_t>(info.st_size);
  }
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

std::span<const std::byte> MappedFile::bytes(uint64_t offset, uint64_t nbytes) const {
  if (offset > size_ || nbytes > size_ - offset) {
    fail("Bytes {} to {} are outside {}, which has {}", offset, offset + nbytes, quote(path_.native(), 400),
         bytes_text(size_));
  }
  return {data_ + offset, nbytes};
}

bool MappedFile::unchanged() const {
  struct stat info = {};
  return ::stat(path_.c_str(), &info) == 0 && static_cast<uint64_t>(info.st_size) == size_ &&
         info.st_dev == stamp_.device && info.st_ino == stamp_.inode && info.st_mtim.tv_sec == stamp_.seconds &&
         info.st_mtim.tv_nsec == stamp_.nanoseconds;
}

void MappedFile::advise(uint64_t offset, uint64_t nbytes, int advice, bool whole_pages) const {
  static const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  if (data_ == nullptr || offset >= size_ || nbytes == 0) {
    return;
  }
  uint64_t end = offset + std::min(nbytes, size_ - offset);
  uint64_t first = whole_pages ? (offset + page - 1) / page * page : offset / page * page;
  uint64_t last = whole_pages && end != size_ ? end / page * page : end;
  if (first < last) {
    ::madvise(data_ + first, last - first, advice);
  }
}

void MappedFile::advise_sequential(uint64_t offset, uint64_t nbytes) const {
  advise(offset, nbytes, MADV_SEQUENTIAL, false);
}

void MappedFile::advise_will_need(uint64_t offset, uint64_t nbytes) const {
  advise(offset, nbytes, MADV_WILLNEED, false);
}

void MappedFile::advise_dont_need(uint64_t offset, uint64_t nbytes) const {
  advise(offset, nbytes, MADV_DONTNEED, true);
}

}  // namespace exporters
