#include "exporters/support/file_copy.h"

#include "exporters/support/error.h"
#include "exporters/support/mapped_file.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <random>

namespace exporters {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::read_text;
using testing::TemporaryFolder;
using testing::write_text;

std::string random_text(size_t size) {
  std::mt19937 random(7);
  std::string text(size, '\0');
  for (char& c : text) {
    c = static_cast<char>(random());
  }
  return text;
}

uint64_t disk_bytes(const std::filesystem::path& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_blocks) * 512 : UINT64_MAX;
}

TEST(FileCopyTest, RangesArriveAtTheirPlaces) {
  TemporaryFolder folder;
  std::string text = random_text(3'000'000);
  write_text(folder / "source", text);

  AtomicFile file(folder / "target");
  file.write("head");
  append_range(file, folder / "source", 1'234, 2'000'001);
  append_range(file, folder / "source", 0, 0);
  append_range(file, folder / "source", 2'999'999, 1);
  file.commit();

  EXPECT_EQ(read_text(folder / "target"), "head" + text.substr(1'234, 2'000'001) + text.back());
}

// Data, a hole, and data again.
TEST(FileCopyTest, InspectsEveryByteInOrder) {
  TemporaryFolder folder;
  const std::string text = random_text(2'000'000);
  write_text(folder / "source", text);
  ASSERT_EQ(::truncate((folder / "source").c_str(), 5'000'000), 0);
  std::string seen;
  CopyOptions options;
  options.inspect = {.write =
                         [&](std::span<const std::byte> bytes) {
                           seen.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                         },
                     .write_zeros = [&](uint64_t nbytes) { seen.append(nbytes, '\0'); }};

  AtomicFile file(folder / "target");
  append_range(file, folder / "source", 1'234, 4'000'000, options);
  file.commit();

  EXPECT_EQ(seen, (text + std::string(3'000'000, '\0')).substr(1'234, 4'000'000));
  EXPECT_EQ(read_text(folder / "target"), seen);
}

TEST(FileCopyTest, WholeFilesAreEqual) {
  TemporaryFolder folder;
  std::string text = random_text(70'000'003);
  write_text(folder / "source", text);
  uint64_t reported = 0;

  CopyStats stats = copy_whole_file(folder / "source", folder / "target",
                                    {.drop_cache = true, .progress = [&](uint64_t count) { reported += count; }});

  EXPECT_TRUE(read_text(folder / "target") == text);
  EXPECT_EQ(stats.cloned + stats.copied + stats.holes, text.size());
  EXPECT_EQ(reported, text.size());
}

TEST(FileCopyTest, ASparse40GigabyteFileCostsNothing) {
  TemporaryFolder folder;
  constexpr uint64_t kSize = 40'000'000'000;
  write_text(folder / "source", "head");
  std::filesystem::resize_file(folder / "source", kSize);
  int fd = ::open((folder / "source").c_str(), O_WRONLY);
  ASSERT_EQ(::pwrite(fd, "middle", 6, 20'000'000'001), 6);
  ::close(fd);
  auto start = std::chrono::steady_clock::now();

  CopyStats stats = copy_whole_file(folder / "source", folder / "target");

  // 40 GB of bytes would take a minute.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(std::filesystem::file_size(folder / "target"), kSize);
  EXPECT_LT(disk_bytes(folder / "target"), 1'000'000u);
  EXPECT_GT(stats.holes, kSize - 1'000'000);
  std::shared_ptr<const MappedFile> target = MappedFile::open(folder / "target");
  EXPECT_EQ(std::memcmp(target->bytes(0, 5).data(), "head\0", 5), 0);
  EXPECT_EQ(std::memcmp(target->bytes(20'000'000'000, 8).data(), "\0middle\0", 8), 0);
}

TEST(FileCopyTest, HolesReplaceOldData) {
  TemporaryFolder folder;
  write_text(folder / "source", "");
  std::filesystem::resize_file(folder / "source", 1'000'000);
  write_text(folder / "target", std::string(1'000'100, 'x'));
  int fd = ::open((folder / "target").c_str(), O_RDWR);

  copy_range(folder / "source", 0, 1'000'000, fd, 50, folder / "target");

  ::close(fd);
  EXPECT_TRUE(read_text(folder / "target") ==
              std::string(50, 'x') + std::string(1'000'000, '\0') + std::string(50, 'x'));
}

// A file in memory and one on disk are on different filesystems; where the kernel copies between them all the same,
// this is one more copy.
TEST(FileCopyTest, FilesystemsMayDiffer) {
  TemporaryFolder folder;
  std::string text = random_text(2'500'000);
  write_text(folder / "source", text);
  int memory = ::memfd_create("target", 0);
  ASSERT_GE(memory, 0);

  copy_range(folder / "source", 7, 2'400'000, memory, 3, "memory");

  std::string copied(2'400'003, '?');
  ASSERT_EQ(::pread(memory, copied.data(), copied.size(), 0), static_cast<ssize_t>(copied.size()));
  ::close(memory);
  EXPECT_TRUE(copied == std::string(3, '\0') + text.substr(7, 2'400'000));
}

TEST(FileCopyTest, TheCopyDoesNotCountAsMemoryOfTheProcess) {
  TemporaryFolder folder;
  constexpr uint64_t kSize = 100u << 20;
  {
    AtomicFile file(folder / "source");
    std::string chunk = random_text(1u << 20);
    while (file.size() < kSize) {
      file.write(chunk);
    }
    file.commit();
  }
  rusage before = {};
  ::getrusage(RUSAGE_SELF, &before);

  copy_whole_file(folder / "source", folder / "target");

  rusage after = {};
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_EQ(std::filesystem::file_size(folder / "target"), kSize);
  // Kilobytes; a copy through a mapping or a buffer of the whole would show all 100 MB.
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 20'000);
}

TEST(FileCopyTest, ASourceThatIsTooShortIsAnErrorWithSizes) {
  TemporaryFolder folder;
  write_text(folder / "source", "12345678");
  EXPECT_THAT(error_of([&] {
                AtomicFile file(folder / "target");
                append_range(file, folder / "source", 4, 5);
              }),
              AllOf(HasSubstr("bytes 4 to 9 of '"), HasSubstr("source': it has 8 bytes")));
  EXPECT_THAT(error_of([&] { copy_whole_file(folder / "none", folder / "target"); }), HasSubstr("none': No such file"));
  EXPECT_FALSE(std::filesystem::exists(folder / "target"));
}

TEST(MappedFileTest, BytesOutsideAreAnError) {
  TemporaryFolder folder;
  write_text(folder / "f", "12345678");
  std::shared_ptr<const MappedFile> file = MappedFile::open(folder / "f");
  EXPECT_EQ(file->bytes(8, 0).size(), 0u);
  EXPECT_THAT(error_of([&] { file->bytes(4, 5); }), HasSubstr("which has 8 bytes"));
  EXPECT_THAT(error_of([&] { file->bytes(9, 0); }), HasSubstr("which has 8 bytes"));
  EXPECT_THAT(error_of([&] { file->bytes(1, UINT64_MAX); }), HasSubstr("which has 8 bytes"));
}

TEST(MappedFileTest, AnEmptyFileHasNoBytes) {
  TemporaryFolder folder;
  write_text(folder / "f", "");
  EXPECT_TRUE(MappedFile::open(folder / "f")->bytes().empty());
}

TEST(MappedFileTest, TwoWaysToOneFileHaveOneIdentity) {
  TemporaryFolder folder;
  write_text(folder / "blobs/f", "x");
  std::filesystem::create_symlink("blobs/f", folder / "link");
  EXPECT_EQ(MappedFile::open(folder / "link")->identity(), MappedFile::open(folder / "blobs/../link")->identity());
  EXPECT_EQ(MappedFile::open(folder / "link")->path(), folder / "link");
}

TEST(MappedFileTest, SeesThatTheFileChanged) {
  TemporaryFolder folder;
  write_text(folder / "f", "old");
  std::shared_ptr<const MappedFile> file = MappedFile::open(folder / "f");
  EXPECT_TRUE(file->unchanged());
  write_file(folder / "f", "new");
  EXPECT_FALSE(file->unchanged());
  EXPECT_EQ(std::memcmp(file->bytes().data(), "old", 3), 0);
}

uint64_t resident_bytes(const MappedFile& file) {
  uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  FILE* maps = std::fopen("/proc/self/smaps", "r");
  char line[4096];
  bool inside = false;
  uint64_t resident = 0;
  std::string start = fmt::format("{:x}-", reinterpret_cast<uintptr_t>(file.bytes().data()));
  while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
    std::string_view text(line);
    inside = text.starts_with(start) || (inside && !text.starts_with("VmFlags"));
    if (unsigned long kilobytes = 0; inside && std::sscanf(line, "Rss: %lu", &kilobytes) == 1) {
      resident = kilobytes * 1024;
    }
  }
  if (maps != nullptr) {
    std::fclose(maps);
  }
  return resident / page * page;
}

TEST(MappedFileTest, PagesAreGivenBackOnRequest) {
  TemporaryFolder folder;
  write_text(folder / "f", random_text(8u << 20));
  std::shared_ptr<const MappedFile> file = MappedFile::open(folder / "f");
  uint64_t sum = 0;
  for (std::byte byte : file->bytes()) {
    sum += static_cast<uint64_t>(byte);
  }
  EXPECT_GT(sum, 0u);
  EXPECT_GE(resident_bytes(*file), 8u << 20);

  file->advise_dont_need(0, file->size());

  EXPECT_EQ(resident_bytes(*file), 0u);
}

}  // namespace
}  // namespace exporters
