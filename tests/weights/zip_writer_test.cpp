#include "exporters/weights/zip_writer.h"

#include "exporters/weights/crc32.h"
#include "exporters/weights/zip_archive.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

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
  std::mt19937 random(11);
  std::string text(size, '\0');
  for (char& c : text) {
    c = static_cast<char>(random());
  }
  return text;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string unpacked(const ZipArchive& archive, std::string_view name) {
  const ZipEntry* entry = archive.find(name);
  EXPECT_NE(entry, nullptr) << name;
  std::string text(entry->size, '\0');
  archive.read(*entry, std::as_writable_bytes(std::span(text)));  // compares the checksum
  return text;
}

// Against zlib, at every length around whole blocks, at every alignment, and carried on.
TEST(Crc32, IsZlibs) {
  const std::string text = random_text(1000);
  for (size_t begin = 0; begin < 33; ++begin) {
    for (size_t size = 0; size < 300; ++size) {
      const std::string part = text.substr(begin, size);
      const auto expected = static_cast<uint32_t>(
          ::crc32(begin, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size())));
      ASSERT_EQ(crc32_of(bytes_of(text).subspan(begin, size), static_cast<uint32_t>(begin)), expected)
          << begin << " " << size;
    }
  }
  EXPECT_EQ(crc32_of(bytes_of(text).subspan(123), crc32_of(bytes_of(text).first(123))), crc32_of(bytes_of(text)));
}

TEST(Crc32, OfZerosIsThatOfAsManyZeroBytes) {
  for (const size_t count : {0, 1, 2, 63, 64, 1000, 1'000'003}) {
    const std::string zeros(count, '\0');
    EXPECT_EQ(crc32_of_zeros(count), crc32_of(bytes_of(zeros))) << count;
    EXPECT_EQ(crc32_of_zeros(count, 0x12345678), crc32_of(bytes_of(zeros), 0x12345678)) << count;
  }
}

TEST(ZipWriter, EntriesComeBack) {
  TemporaryFolder folder;
  const std::string source = random_text(300'000);
  write_text(folder / "source", source);
  {
    AtomicFile file(folder / "archive.zip");
    ZipWriter writer(file);
    writer.add("a/text", "some text");
    writer.add("a/empty", "");
    writer.add_range("a/short", folder / "source", 17, 100);
    writer.add_range("a/long", folder / "source", 8, 299'000);
    writer.add_range("a/nothing", folder / "source", 5, 0);
    writer.add_pieces("a/pieces", 1'000'007, [&](const ByteSink& sink) {
      sink.write(bytes_of(source).first(3));
      sink.write_zeros(1'000'000);
      sink.write(bytes_of(source).subspan(3, 4));
    });
    writer.finish();
    file.commit();
  }

  const ZipArchive archive = ZipArchive::open(folder / "archive.zip");
  ASSERT_EQ(archive.entries().size(), 6u);
  EXPECT_EQ(unpacked(archive, "a/text"), "some text");
  EXPECT_EQ(unpacked(archive, "a/empty"), "");
  EXPECT_EQ(unpacked(archive, "a/short"), source.substr(17, 100));
  EXPECT_EQ(unpacked(archive, "a/long"), source.substr(8, 299'000));
  EXPECT_EQ(unpacked(archive, "a/nothing"), "");
  EXPECT_EQ(unpacked(archive, "a/pieces"), source.substr(0, 3) + std::string(1'000'000, '\0') + source.substr(3, 4));
  EXPECT_EQ(archive.find("a/text")->offset % 64, 0u);
  EXPECT_EQ(archive.find("a/short")->offset % 64, 0u);
  // Blocks of the source can be shared: both ranges begin at one place within a block.
  EXPECT_EQ(archive.find("a/long")->offset % 4096, 8u);
}

TEST(ZipWriter, PiecesOfAnotherSizeThanTheyWereToHaveAreErrors) {
  TemporaryFolder folder;
  AtomicFile file(folder / "archive.zip");
  ZipWriter writer(file);
  EXPECT_THAT(error_of([&] { writer.add_pieces("w", 5, [](const ByteSink& sink) { sink.write_zeros(4); }); }),
              AllOf(HasSubstr("4 of 5 bytes"), HasSubstr("'w'")));
}

TEST(ZipWriter, AnArchiveInMemoryIsTheSame) {
  TemporaryFolder folder;
  write_text(folder / "archive.zip", zip_text({{"x", "1"}, {"folder/y", random_text(1000)}}));
  const ZipArchive archive = ZipArchive::open(folder / "archive.zip");
  EXPECT_EQ(unpacked(archive, "x"), "1");
  EXPECT_EQ(unpacked(archive, "folder/y"), random_text(1000));
}

TEST(ZipWriter, TheSameEntriesGiveTheSameBytesAndDigest) {
  TemporaryFolder folder;
  uint64_t digests[2] = {};
  for (int i = 0; i < 2; ++i) {
    AtomicFile file(folder / std::to_string(i));
    ZipWriter writer(file);
    writer.add("x", "text");
    digests[i] = writer.digest();
    writer.finish();
    file.commit();
  }
  EXPECT_EQ(read_text(folder / "0"), read_text(folder / "1"));
  EXPECT_EQ(digests[0], digests[1]);
}

// More than 4 GB in one entry, and an entry behind it, from a sparse file: holes stay holes.
TEST(ZipWriter, ManyGigabytes) {
  TemporaryFolder folder;
  constexpr uint64_t kHole = (uint64_t{4} << 30) + 123'456;
  write_text(folder / "source", "begin");
  ASSERT_EQ(::truncate((folder / "source").c_str(), static_cast<off_t>(kHole)), 0);
  {
    AtomicFile file(folder / "archive.zip");
    ZipWriter writer(file);
    writer.add_range("large", folder / "source", 0, kHole);
    writer.add("behind", "text");
    writer.finish();
    file.commit();
  }

  const ZipArchive archive = ZipArchive::open(folder / "archive.zip");
  EXPECT_EQ(archive.find("large")->size, kHole);
  // What zlib's crc32 gives for "begin" and so many zeros.
  EXPECT_EQ(archive.find("large")->crc, 0x8bd0e81fu);
  EXPECT_EQ(unpacked(archive, "behind"), "text");
}

}  // namespace
}  // namespace exporters
