#pragma once

#include "exporters/support/file_descriptor.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace exporters {

/// Whether a commit waits for the disk: with kDurable the result survives a power failure.
enum class Durability { kFast, kDurable };

/// A file that appears whole or not at all: written under a hidden name beside its target and renamed by commit().
/// Without a commit (an exception, a killed process) the target stays what it was. What killed processes left behind
/// is removed by the next writer of the same target.
class AtomicFile {
 public:
  /// Throws Error, naming the target, if its folder is missing or not writable, or the target is a folder. A target
  /// that is a link is replaced where it leads.
  explicit AtomicFile(const std::filesystem::path& target, Durability durability = Durability::kFast);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& target() const { return target_; }
  /// For writers that place bytes themselves (copy_range); not to be closed. Leave its position alone.
  int fd() const { return fd_.get(); }
  /// Appends. Throws Error, naming the target, if the disk is full or fails.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Bytes appended so far.
  uint64_t size() const { return size_; }
  /// Appends zeros up to the next multiple of `alignment`, without writing them.
  void align(uint64_t alignment);
  /// Appends `nbytes` that the caller writes through fd(); returns where they begin.
  uint64_t reserve(uint64_t nbytes);

  /// Writes over bytes that were appended or reserved before.
  void write_at(uint64_t offset, std::string_view text);

  /// Puts the file in place; nothing may be written after it.
  void commit();

 private:
  void write_all(std::span<const std::byte> bytes, uint64_t offset);

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  Durability durability_;
  FileDescriptor fd_;
  uint64_t size_ = 0;
  bool committed_ = false;
};

/// Writes a whole file through AtomicFile.
void write_file(const std::filesystem::path& target, std::string_view text, Durability durability = Durability::kFast);

/// Makes `target` another name of the file `source` (a hard link), in place of what was there, in one step. Throws
/// Error with both names, and the way out in words where the two cannot be one file: another file system, or one
/// without links.
void link_file(const std::filesystem::path& source, const std::filesystem::path& target);

/// A folder that appears whole or not at all: built beside its target and swapped with it in one step by commit().
class AtomicFolder {
 public:
  struct Options {
    Durability durability = Durability::kFast;
    /// Which files of the old folder the new one keeps where it has none of that name (the path is relative to the
    /// folder): they are linked into the new folder, or copied. By default all: a user's own files survive, and folders
    /// of theirs, also empty ones.
    std::function<bool(const std::filesystem::path&)> keep = [](const std::filesystem::path&) { return true; };
  };

  /// Makes the target's parents. Throws Error, naming the target, if it is a file, the current folder or one above it,
  /// or if nothing can be made beside it.
  explicit AtomicFolder(const std::filesystem::path& target);
  AtomicFolder(const std::filesystem::path& target, Options options);
  /// Without a commit: removes what was built, and leaves the target alone.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& target() const { return target_; }
  /// Where to build. The name is random: write it into nothing.
  const std::filesystem::path& path() const { return temporary_; }

  /// Swaps the folders and removes the old one. Throws Error, with the target as it was, if that fails.
  void commit();

 private:
  void keep_old_files() const;
  void prepare() const;
  void swap();

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  Options options_;
  FileDescriptor lock_;
  bool committed_ = false;
};

/// Removes what the AtomicFiles and AtomicFolders of this process have not committed, for a process that is about to end:
/// from then on threads that make, commit or destroy one wait for ever. Thread-safe, but not for use within a signal
/// handler.
void remove_uncommitted();

}  // namespace exporters
