#include "exporters/support/error.h"
#include "exporters/weights/safetensors.h"
#include "tests/support/temporary_folder.h"
#include "tests/weights/safetensors_text.h"

#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>

namespace exporters {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::read_text;
using testing::safetensors_text;
using testing::TemporaryFolder;
using testing::tensor_text;
using testing::write_text;

const std::filesystem::path kDamage = std::filesystem::path(EXPORTERS_TEST_DATA) / "weights" / "damage";

std::string error_of(const std::filesystem::path& path) {
  try {
    SafetensorsFile::open(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of_text(std::string_view text) {
  TemporaryFolder folder;
  write_text(folder / "made.safetensors", text);
  std::string error = error_of(folder / "made.safetensors");
  // Every message names the file.
  EXPECT_THAT(error, HasSubstr("made.safetensors"));
  return error;
}

// 8 bytes of data under `header`.
std::string error_of_header(std::string_view header) { return error_of_text(safetensors_text(header, "12345678")); }

struct Damaged {
  const char* file;
  std::vector<const char*> message;
};

// The files of the reported failures. Each message has the sizes that were declared and found.
TEST(SafetensorsDamageTest, ReportedFilesAreRefusedWithTheReason) {
  const Damaged kCases[] = {
      {"dup_key", {"the tensor 'a' appears twice"}},
      {"empty", {"is damaged", "0 bytes"}},
      {"header_len_huge", {"a header of 1099511627776 bytes", "the limit is 100000000 bytes", "the file has 186"}},
      {"header_not_json", {"header is not valid JSON at byte"}},
      {"html_error", {"is a web page", "Download it again"}},
      {"lfs_pointer", {"is a git-lfs pointer", "git lfs pull"}},
      {"odd_dtype", {"'a' of shape [3, 4] and dtype F8_E8M0 needs 12 bytes", "[0, 48] hold 48 bytes"}},
      {"offset_size_mismatch", {"'a' of shape [3, 4] and dtype F32 needs 48 bytes", "[0, 44] hold 44 bytes"}},
      {"overlapping", {"tensors 'a' and 'c' overlap", "begins at byte 208", "ends at 256"}},
      {"shape_overflow", {"'a' of shape [1099511627776, 1099511627776]", "64 bits"}},
      {"trailing_bytes", {"tensors end at byte 186", "the file has 202 bytes", "last 16 bytes belong to no tensor"}},
      {"truncated_data", {"is damaged", "'b' ends at byte 186", "the file has only 180 bytes"}},
      {"truncated_header", {"is damaged", "a header of 120 bytes", "the whole file has 20 bytes"}},
  };
  for (const Damaged& damaged : kCases) {
    SCOPED_TRACE(damaged.file);
    std::string name = std::string(damaged.file) + ".safetensors";
    std::string error = error_of(kDamage / name);
    EXPECT_THAT(error, HasSubstr(name));
    for (const char* part : damaged.message) {
      EXPECT_THAT(error, HasSubstr(part));
    }
  }
}

TEST(SafetensorsDamageTest, TheGoodFileBesideThemLoads) {
  std::shared_ptr<const SafetensorsFile> file = SafetensorsFile::open(kDamage / "good.safetensors");
  EXPECT_EQ(file->tensor("a").sizes(), at::IntArrayRef({3, 4}));
  EXPECT_EQ(file->tensor("a")[2][3].item<float>(), 11.0f);
  EXPECT_EQ(file->tensor("b").scalar_type(), at::kBFloat16);
}

TEST(SafetensorsDamageTest, FilesWithoutTensorsLoadEmpty) {
  EXPECT_TRUE(SafetensorsFile::open(kDamage / "no_tensors.safetensors")->entries().empty());
  std::shared_ptr<const SafetensorsFile> file = SafetensorsFile::open(kDamage / "metadata_only.safetensors");
  EXPECT_TRUE(file->entries().empty());
  EXPECT_EQ(file->metadata().at("k"), "v");
  TemporaryFolder folder;
  write_text(folder / "bare.safetensors", safetensors_text("{}"));
  EXPECT_TRUE(SafetensorsFile::open(folder / "bare.safetensors")->entries().empty());
}

TEST(SafetensorsDamageTest, FilesThatEndTooEarly) {
  EXPECT_THAT(error_of_text("\x10"), HasSubstr("it has 1 bytes, less than the 8 bytes"));
  std::string good = safetensors_text("{" + tensor_text("w", "I64", "[2]", "[0,16]") + "}", std::string(16, 'x'));
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_THAT(error_of_text(std::string_view(good).substr(0, length)), HasSubstr("is damaged")) << length;
  }
}

TEST(SafetensorsDamageTest, HeaderLengthsThatLie) {
  EXPECT_THAT(error_of_text(safetensors_text("{}", "", 1'000)), HasSubstr("a header of 1000 bytes"));
  EXPECT_THAT(error_of_text(safetensors_text("{}", "", INT64_MAX)), HasSubstr("the limit is 100000000 bytes"));
  EXPECT_THAT(error_of_text(std::string(8, '\xff') + "{}"), HasSubstr("a header of 18446744073709551615 bytes"));
  EXPECT_THAT(error_of_text(safetensors_text("", "12345678")), HasSubstr("not valid JSON"));
  // One byte too short: cuts the JSON. One too long: takes a byte of data.
  std::string header = "{" + tensor_text("w", "I64", "[1]", "[0,8]") + "}";
  EXPECT_THAT(error_of_text(safetensors_text(header, "12345678", static_cast<int64_t>(header.size()) - 1)),
              HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of_text(safetensors_text(header, "12345678", static_cast<int64_t>(header.size()) + 1)),
              HasSubstr("tensor 'w' ends at byte 71 of the file, but the file has only 70"));
}

TEST(SafetensorsDamageTest, AHeaderAboveTheLimitIsNotReadEvenIfItIsThere) {
  TemporaryFolder folder;
  write_text(folder / "long.safetensors", safetensors_text("{}", "", 100'000'001));
  std::filesystem::resize_file(folder / "long.safetensors", 200'000'000);
  EXPECT_THAT(error_of(folder / "long.safetensors"), HasSubstr("the limit is 100000000 bytes (100.0 MB)"));
}

TEST(SafetensorsDamageTest, OtherKindsOfFile) {
  EXPECT_THAT(error_of_text("<html><body>404</body></html>"), HasSubstr("is a web page"));
  EXPECT_THAT(error_of_text("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("is a git-lfs pointer"));
  EXPECT_THAT(error_of_text("PK\x03\x04 and so on, a zip"), HasSubstr("is a zip archive"));
  EXPECT_THAT(error_of_text("GGUF\x03\x01\x01\x01 and so on"), HasSubstr("is a GGUF file"));
  EXPECT_THAT(error_of_text(R"({"error": "Repository not found"})"), HasSubstr("is a JSON text"));
  EXPECT_THAT(error_of_text("\x80\x02}q\x01(X\x06\x01\x01\x01"), HasSubstr("is a Python pickle"));
  EXPECT_THAT(error_of_text("Entry not found"), HasSubstr("did not have the file"));
}

struct BadHeader {
  const char* header;
  const char* message;
};

TEST(SafetensorsDamageTest, HeadersThatBreakTheFormat) {
  const BadHeader kCases[] = {
      // JSON
      {"[]", "its header is an array, not an object"},
      {"null", "its header is null"},
      {"\"text\"", "its header is a string"},
      {"12", "its header is a number"},
      {"{} {}", "not valid JSON"},
      {"{\"a\"", "not valid JSON"},
      {"{\"\xff\": 1}", "not valid JSON"},
      // members
      {R"({"w": 1})", "tensor 'w' is described by a number"},
      {R"({"w": []})", "tensor 'w' is described by an array"},
      {R"({"w": {}})", "tensor 'w' has no dtype"},
      {R"({"w": {"dtype": "I64", "shape": [1]}})", "tensor 'w' has no data_offsets"},
      {R"({"w": {"dtype": "I64", "data_offsets": [0, 8]}})", "tensor 'w' has no shape"},
      {R"({"w": {"dtype": 3, "shape": [1], "data_offsets": [0, 8]}})", "tensor 'w' has a number as dtype"},
      {R"({"w": {"dtype": "I64", "shape": 1, "data_offsets": [0, 8]}})", "has a number as shape"},
      {R"({"w": {"dtype": "I64", "shape": [[1]], "data_offsets": [0, 8]}})", "has an array as shape"},
      {R"({"w": {"dtype": "I64", "shape": [1], "data_offsets": "0-8"}})", "has a string as data_offsets"},
      {R"({"w": {"dtype": "I64", "shape": [1], "data_offsets": [0]}})", "has 1 of its two data_offsets"},
      {R"({"w": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8, 9]}})", "more than two data_offsets"},
      {R"({"w": {"dtype": "I64", "dtype": "I64", "shape": [1], "data_offsets": [0, 8]}})", "'w' has dtype twice"},
      // metadata
      {R"({"__metadata__": [], "w": 1})", "__metadata__ is an array, not an object of strings"},
      {R"({"__metadata__": {"a": 1}})", "the metadata key 'a' is a number, not a string"},
      {R"({"__metadata__": {"a": "1", "a": "2"}})", "the metadata key 'a' appears twice"},
      {R"({"__metadata__": {}, "__metadata__": {}})", "'__metadata__' appears twice"},
      // dtypes
      {R"({"w": {"dtype": "F31", "shape": [1], "data_offsets": [0, 8]}})", "unknown dtype 'F31'"},
      {R"({"w": {"dtype": "f64", "shape": [1], "data_offsets": [0, 8]}})", "unknown dtype 'f64'. Did you mean 'F64'"},
      {R"({"w": {"dtype": "F4", "shape": [16], "data_offsets": [0, 8]}})", "smaller than a byte"},
      {R"({"w": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]}})", "smaller than a byte"},
      // numbers
      {R"({"w": {"dtype": "I64", "shape": [-1], "data_offsets": [0, 8]}})", "'-1' in its shape"},
      {R"({"w": {"dtype": "I64", "shape": [1.0], "data_offsets": [0, 8]}})", "'1.0' in its shape"},
      {R"({"w": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8e0]}})", "'8e0' in its data_offsets"},
      {R"({"w": {"dtype": "I64", "shape": [1], "data_offsets": [-8, 0]}})", "'-8' in its data_offsets"},
      {R"({"w": {"dtype": "U8", "shape": [9223372036854775808], "data_offsets": [0, 8]}})",
       "'9223372036854775808' in its shape"},
      {R"({"w": {"dtype": "U8", "shape": [99999999999999999999], "data_offsets": [0, 8]}})",
       "'99999999999999999999' in its shape"},
      // sizes: the product of shape and dtype wraps to 8, to 0, and only without the axis of size 0
      {R"({"w": {"dtype": "I64", "shape": [2305843009213693953], "data_offsets": [0, 8]}})", "64 bits"},
      {R"({"w": {"dtype": "I64", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}})", "64 bits"},
      {R"({"w": {"dtype": "I64", "shape": [0, 4294967296, 4294967296], "data_offsets": [0, 0]}})", "64 bits"},
      {R"({"w": {"dtype": "I64", "shape": [2], "data_offsets": [0, 8]}})", "needs 16 bytes"},
      {R"({"w": {"dtype": "I64", "shape": [], "data_offsets": [0, 4]}})", "needs 8 bytes"},
      // places
      {R"({"w": {"dtype": "I64", "shape": [1], "data_offsets": [8, 0]}})", "begins at 8 and ends before it, at 0"},
      {R"({"w": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]}})", "the file has only"},
      {R"({"w": {"dtype": "U8", "shape": [1], "data_offsets": [9223372036854775806, 9223372036854775807]}})",
       "the file has only"},
      {R"({"w": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}})", "4 bytes of no tensor before 'w'"},
      {R"({"v": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
           "w": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}})",
       "2 bytes of no tensor before 'w'"},
      {R"({"v": {"dtype": "U8", "shape": [6], "data_offsets": [0, 6]},
           "w": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}})",
       "'v' and 'w' overlap"},
      {R"({"v": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]},
           "w": {"dtype": "U8", "shape": [0], "data_offsets": [4, 4]}})",
       "'v' and 'w' overlap"},
      {R"({"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})", "last 4 bytes belong to no tensor"},
      {"{}", "last 8 bytes belong to no tensor"},
  };
  for (const BadHeader& bad : kCases) {
    EXPECT_THAT(error_of_header(bad.header), HasSubstr(bad.message)) << bad.header;
  }
}

// What the format's own reader accepts.
TEST(SafetensorsDamageTest, HarmlessOdditiesLoad) {
  const char* kHeaders[] = {
      R"( {"w": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}})",
      "{\"w\": {\"dtype\": \"I64\", \"shape\": [1], \"data_offsets\": [0, 8]}}\n   ",
      R"({"w": {"data_offsets": [0, 8], "shape": [1], "dtype": "I64"}, "__metadata__": null})",
      R"({"w": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8], "note": {"x": [1, {"y": null}], "z": "1"}}})",
      R"({"": {"dtype": "U8", "shape": [0], "data_offsets": [8, 8]},
          "w": {"dtype": "I64", "shape": [1, 1], "data_offsets": [0, 8]}})",
  };
  for (const char* header : kHeaders) {
    TemporaryFolder folder;
    write_text(folder / "odd.safetensors", safetensors_text(header, std::string("\5\0\0\0\0\0\0\0", 8)));
    EXPECT_EQ(SafetensorsFile::open(folder / "odd.safetensors")->tensor("w").item<int64_t>(), 5) << header;
  }
}

TEST(SafetensorsDamageTest, NamesOfAStrangerAreShownCutAndEscaped) {
  std::string name(100'000, 'n');
  std::string error = error_of_header("{" + tensor_text("\\u0000\\n\\u001b[31m" + name, "U8", "[1]", "[0,8]") + "}");
  EXPECT_THAT(error, HasSubstr("\\x00\\x0a\\x1b[31mnnn"));
  EXPECT_LT(error.size(), 1'000u);
}

TEST(SafetensorsDamageTest, DeepNestingIsRefused) {
  std::string deep = R"({"w": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8], "x": )";
  EXPECT_THAT(error_of_header(deep + std::string(1'000'000, '[')), HasSubstr("nests deeper than 128"));
}

// Bounded by the header's length: 32 MB of brackets in a member that is skipped, then a fault.
TEST(SafetensorsDamageTest, ALongHostileHeaderCostsNeitherMemoryNorTime) {
  std::string deep = R"({"w": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8], "x": [)";
  std::string header = deep;
  while (header.size() < 32'000'000) {
    header += "[],[],[],[],[],[],[],[],";
  }
  TemporaryFolder folder;
  write_text(folder / "long.safetensors", safetensors_text(header, "12345678"));
  rusage before = {};
  ::getrusage(RUSAGE_SELF, &before);
  auto start = std::chrono::steady_clock::now();

  EXPECT_THAT(error_of(folder / "long.safetensors"), HasSubstr("not valid JSON"));

  rusage after = {};
  ::getrusage(RUSAGE_SELF, &after);
  // Kilobytes. The mapped header itself counts, and a sanitizer's bookkeeping; a tree of these ten million values would
  // take more than 400 MB.
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 250'000);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(SafetensorsDamageTest, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "dir.safetensors");
  EXPECT_THAT(error_of(folder / "dir.safetensors"), HasSubstr("it is a folder"));
  ASSERT_EQ(::mkfifo((folder / "pipe.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(error_of(folder / "pipe.safetensors"), HasSubstr("it is a pipe"));
  EXPECT_THAT(error_of("/dev/zero"), HasSubstr("it is a device"));
  EXPECT_THAT(error_of(folder / "none.safetensors"), HasSubstr("No such file"));
}

}  // namespace
}  // namespace exporters
