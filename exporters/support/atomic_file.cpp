#include "exporters/support/atomic_file.h"

#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace exporters {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".partial-";

// ".model.onnx.partial-0123456789abcdef", beside the target, so that a rename can put it in place.
fs::path temporary_beside(const fs::path& target) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  std::string prefix = "." + target.filename().native().substr(0, 200) + std::string(kMark);
  return target.parent_path() / (prefix + fmt::format("{:016x}", random()));
}

// Note [Abandoned temporaries]
// Whoever builds a temporary holds a lock on it (flock), which ends with the process however that dies. So one that
// can be locked has nobody any more, and the next writer of the same target removes it. Between making and locking, a
// new one looks abandoned too: the maker therefore looks again once it has the lock, and makes another if it is gone.
void remove_if_abandoned(const fs::path& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
}

// The temporaries of this process, for remove_uncommitted. What makes one, or puts it in place, holds the mutex.
struct Uncommitted {
  std::mutex mutex;
  std::set<fs::path> paths;

  void forget(const fs::path& path) {
    const std::lock_guard lock(mutex);
    paths.erase(path);
  }
};

Uncommitted& uncommitted() {
  static auto* instance = new Uncommitted;  // writers may outlive static objects
  return *instance;
}

bool is_still_at(int fd, const fs::path& path) {
  struct stat open = {};
  struct stat named = {};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

// Makes a temporary beside `target` with `make` (which returns a descriptor of it, or none and errno) and locks it.
template <typename Make>
FileDescriptor make_locked(const fs::path& target, fs::path& temporary, Make make) {
  constexpr int kAttempts = 100;
  const std::lock_guard lock(uncommitted().mutex);
  for (int i = 0; i < kAttempts; ++i) {
    temporary = temporary_beside(target);
    FileDescriptor fd(make(temporary));
    if (!fd.valid() && errno != ENOENT && errno != EEXIST) {
      break;
    }
    // A filesystem without locks has no abandoned temporaries either: they can't be told.
    if (fd.valid() && (::flock(fd.get(), LOCK_EX) != 0 || is_still_at(fd.get(), temporary))) {
      uncommitted().paths.insert(temporary);
      return fd;
    }
    if (std::error_code ignored; !fs::exists(target.parent_path(), ignored)) {
      errno = ENOENT;
      break;
    }
  }
  fail_errno("Cannot write", target);
}

int make_file(const fs::path& path) { return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }

int make_folder(const fs::path& path) {
  return ::mkdir(path.c_str(), 0777) == 0 ? ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

// Commits to one folder come one after another: each keeps files of what the one before left. Who cannot get the lock
// in time goes on without it, so that a stranger's lock on the folder holds nobody up for good.
FileDescriptor lock_folder(const fs::path& folder) {
  FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 500 && fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return fd;
}

void remove_abandoned(const fs::path& target) {
  std::string prefix = "." + target.filename().native().substr(0, 200) + std::string(kMark);
  std::vector<fs::path> found;
  std::error_code code;
  for (fs::directory_iterator it(target.parent_path(), code), end; !code && it != end; it.increment(code)) {
    std::string name = it->path().filename().native();
    if (name.starts_with(prefix) && name.size() == prefix.size() + 16) {
      found.push_back(it->path());
    }
  }
  for (const fs::path& path : found) {
    remove_if_abandoned(path);
  }
}

// Absolute, because the working directory may change before the commit; where the target is a link, what it leads to.
fs::path resolved(const fs::path& target) {
  std::error_code code;
  fs::path absolute = fs::absolute(target, code).lexically_normal();
  if (!absolute.has_filename()) {
    absolute = absolute.parent_path();
  }
  if (!fs::is_symlink(absolute, code)) {
    return absolute;
  }
  if (const fs::path followed = fs::canonical(absolute, code); !code) {
    return followed;
  }
  // A link to what is not there: one step after the other, as far as a system goes along.
  fs::path last = absolute;
  for (int links = 0; links < 40 && fs::is_symlink(last, code); ++links) {
    last = (last.parent_path() / fs::read_symlink(last, code)).lexically_normal();
  }
  if (fs::is_symlink(last, code)) {
    fail("Cannot write {}: its links lead in a circle", quote(target.native(), 400));
  }
  return last;
}

void sync(int fd, const fs::path& path) {
  if (::fsync(fd) != 0) {
    fail_errno("Cannot write to disk", path);
  }
}

void sync_folder(const fs::path& folder) {
  FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid()) {
    ::fsync(fd.get());
  }
}

void sync_tree(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && !entry.is_symlink()) {
      FileDescriptor fd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
      if (fd.valid()) {
        sync(fd.get(), entry.path());
      }
    } else if (entry.is_directory()) {
      sync_folder(entry.path());
    }
  }
  sync_folder(folder);
}

int rename_with(const fs::path& from, const fs::path& to, unsigned flags) {
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags));
}

bool unsupported(int code) { return code == EINVAL || code == ENOSYS || code == ENOTSUP; }

}  // namespace

AtomicFile::AtomicFile(const fs::path& target, Durability durability)
    : target_(resolved(target)), durability_(durability) {
  std::error_code code;
  if (fs::is_directory(target_, code)) {
    fail("Cannot write the file {}: it is a folder", quote(target_.native(), 400));
  }
  // A rename would replace a device or a pipe by a file.
  if (fs::exists(target_, code) && !fs::is_regular_file(target_, code)) {
    fail("Cannot write the file {}: it is a device, a pipe or a socket", quote(target_.native(), 400));
  }
  remove_abandoned(target_);
  fd_ = make_locked(target_, temporary_, make_file);
}

AtomicFile::~AtomicFile() {
  if (!committed_ && fd_.valid()) {
    ::unlink(temporary_.c_str());
  }
  uncommitted().forget(temporary_);
}

void AtomicFile::write_all(std::span<const std::byte> bytes, uint64_t offset) {
  while (!bytes.empty()) {
    ssize_t written =
        ::pwrite(fd_.get(), bytes.data(), std::min<size_t>(bytes.size(), 1u << 30), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      fail_errno("Cannot write", target_, written < 0 ? errno : ENOSPC);
    }
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(bytes, size_);
  size_ += bytes.size();
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void AtomicFile::write_at(uint64_t offset, std::string_view text) {
  ensure(offset <= size_ && text.size() <= size_ - offset, "Cannot write {} at byte {} of {}, which has {}",
         text.size(), offset, quote(target_.native(), 400), size_);
  write_all(std::as_bytes(std::span(text.data(), text.size())), offset);
}

uint64_t AtomicFile::reserve(uint64_t nbytes) {
  uint64_t start = size_;
  if (nbytes > static_cast<uint64_t>(INT64_MAX) - start) {
    fail_errno("Cannot write", target_, EFBIG);
  }
  if (::ftruncate(fd_.get(), static_cast<off_t>(start + nbytes)) != 0) {
    fail_errno("Cannot write", target_);
  }
  size_ += nbytes;
  return start;
}

void AtomicFile::align(uint64_t alignment) { reserve((alignment - size_ % alignment) % alignment); }

void AtomicFile::commit() {
  struct stat old = {};
  if (::stat(target_.c_str(), &old) == 0) {
    ::fchmod(fd_.get(), old.st_mode & 07777);
  }
  if (durability_ == Durability::kDurable) {
    sync(fd_.get(), target_);
  }
  {
    const std::lock_guard lock(uncommitted().mutex);
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
      fail_errno("Cannot put in place", target_);
    }
  }
  committed_ = true;
  fd_.reset();
  if (durability_ == Durability::kDurable) {
    sync_folder(target_.parent_path());
  }
}

void write_file(const fs::path& target, std::string_view text, Durability durability) {
  AtomicFile file(target, durability);
  file.write(text);
  file.commit();
}

void link_file(const fs::path& source, const fs::path& target) {
  const fs::path place = resolved(target);
  const fs::path temporary = temporary_beside(place);
  if (::link(source.c_str(), temporary.c_str()) != 0) {
    const int code = errno;
    const bool elsewhere = code == EXDEV;
    throw Error(
        fmt::format("Cannot make {} a hard link of {}: {}", quote(target.native(), 400), quote(source.native(), 400),
                    elsewhere ? "they are on different file systems" : std::strerror(code)),
        {}, elsewhere ? "Write to the file system of the source, or copy it." : "Copy the file instead.");
  }
  const int renamed = ::rename(temporary.c_str(), place.c_str());
  const int code = errno;
  ::unlink(temporary.c_str());  // still there when the target was this very file already
  if (renamed != 0) {
    fail_errno("Cannot put in place", place, code);
  }
}

AtomicFolder::AtomicFolder(const fs::path& target) : AtomicFolder(target, Options()) {}

AtomicFolder::AtomicFolder(const fs::path& target, Options options)
    : target_(resolved(target)), options_(std::move(options)) {
  std::error_code code;
  std::string shown = quote(target.native(), 400);
  if (target.empty()) {
    fail("Cannot write a folder without a name");
  }
  if (fs::exists(target_, code) && !fs::is_directory(target_, code)) {
    fail("Cannot write the folder {}: it is a file", shown);
  }
  fs::path here = fs::current_path(code);
  if (std::mismatch(target_.begin(), target_.end(), here.begin(), here.end()).first == target_.end()) {
    throw Error(
        fmt::format("Cannot replace {}: it is the current folder or one above it", shown), {},
        "Give a folder of its own, for example " + quote((target / "export").lexically_normal().native(), 400) + ".");
  }
  fs::create_directories(target_.parent_path(), code);
  if (code) {
    fail_errno("Cannot make", target_.parent_path(), code.value());
  }
  remove_abandoned(target_);
  lock_ = make_locked(target_, temporary_, make_folder);
}

AtomicFolder::~AtomicFolder() {
  // Before a commit: what was built. After it: the old folder, which the swap put here.
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
  uncommitted().forget(temporary_);
}

void AtomicFolder::keep_old_files() const {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(target_)) {
    fs::path relative = entry.path().lexically_relative(target_);
    fs::path kept = temporary_ / relative;
    if (entry.is_directory() && !entry.is_symlink()) {
      fs::create_directories(kept);
      continue;
    }
    if (fs::exists(fs::symlink_status(kept)) || !options_.keep(relative)) {
      continue;
    }
    fs::create_directories(kept.parent_path());
    std::error_code code;
    if (entry.is_symlink()) {
      fs::copy_symlink(entry.path(), kept);
    } else if (fs::create_hard_link(entry.path(), kept, code); code) {
      fs::copy_file(entry.path(), kept);
    }
  }
}

void AtomicFolder::prepare() const {
  try {
    if (struct stat old = {}; ::stat(target_.c_str(), &old) == 0) {
      keep_old_files();
      fs::permissions(temporary_, static_cast<fs::perms>(old.st_mode & 07777));
    }
    if (options_.durability == Durability::kDurable) {
      sync_tree(temporary_);
    }
  } catch (const fs::filesystem_error& error) {
    fail("Cannot write {}: {}", quote(target_.native(), 400), error.code().message());
  }
}

void AtomicFolder::swap() {
  if (rename_with(temporary_, target_, RENAME_NOREPLACE) == 0) {
    return;
  }
  if (errno == EEXIST && rename_with(temporary_, target_, RENAME_EXCHANGE) == 0) {
    return;
  }
  if (!unsupported(errno)) {
    fail_errno("Cannot put in place", target_);
  }
  // A filesystem without an exchange: two renames, the first undone if the second fails.
  fs::path old = temporary_beside(target_);
  bool had_old = ::rename(target_.c_str(), old.c_str()) == 0;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    int code = errno;
    if (had_old) {
      ::rename(old.c_str(), target_.c_str());
    }
    fail_errno("Cannot put in place", target_, code);
  }
  temporary_ = had_old ? old : fs::path();
}

void AtomicFolder::commit() {
  if (committed_) {
    fail("The folder {} is committed already", quote(target_.native(), 400));
  }
  FileDescriptor turn = lock_folder(target_.parent_path());
  {
    const std::lock_guard lock(uncommitted().mutex);
    prepare();
    swap();
  }
  committed_ = true;
  turn.reset();
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
  if (options_.durability == Durability::kDurable) {
    sync_folder(target_.parent_path());
  }
}

void remove_uncommitted() {
  // For good: other threads go on, and wait where they would make or place something.
  uncommitted().mutex.lock();
  for (const fs::path& path : uncommitted().paths) {
    constexpr int kAttempts = 100;  // a thread may write into the folder as it is removed
    std::error_code code;
    for (int i = 0; i < kAttempts && (i == 0 || code); ++i) {
      fs::remove_all(path, code);
    }
  }
}

}  // namespace exporters
