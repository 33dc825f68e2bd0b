#include "exporters/weights/npz.h"

#include "exporters/support/json.h"
#include "exporters/weights/zip_archive.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/view_as_real.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace exporters {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::read_text;
using testing::TemporaryFolder;
using testing::write_text;

const std::filesystem::path kData = std::filesystem::path(EXPORTERS_TEST_DATA) / "weights";

std::vector<double> values(const at::Tensor& tensor) {
  at::Tensor real = tensor.is_complex() ? at::view_as_real(tensor) : tensor;
  at::Tensor flat = real.to(at::kDouble).flatten();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

// What NumPy wrote, value by value: all dtypes, both byte orders, both axis orders, stored and deflated.
TEST(NpzTest, ReadsEveryArrayOfNumpy) {
  nlohmann::json expected = read_json(kData / "arrays.json");
  for (const char* file : {"arrays_stored.npz", "arrays_deflated.npz"}) {
    std::vector<std::pair<std::string, at::Tensor>> arrays = load_npz(kData / file);
    EXPECT_GE(arrays.size(), expected.size() - 1);
    for (const auto& [name, array] : arrays) {
      EXPECT_EQ(array.sizes().vec(), expected[name]["shape"].get<std::vector<int64_t>>()) << file << name;
      EXPECT_TRUE(array.is_contiguous());
      if (name != "long") {
        EXPECT_EQ(values(array), expected[name]["values"].get<std::vector<double>>()) << file << name;
      }
    }
  }
}

TEST(NpzTest, NamesAndDtypesAreKept) {
  std::vector<std::pair<std::string, at::Tensor>> arrays = load_npz(kData / "arrays_stored.npz");
  EXPECT_EQ(arrays.front().first, "bool");
  EXPECT_EQ(arrays.front().second.scalar_type(), at::kBool);
  auto half = std::find_if(arrays.begin(), arrays.end(), [](const auto& array) { return array.first == "f2"; });
  EXPECT_EQ(half->second.scalar_type(), at::kHalf);
}

TEST(NpzTest, ASingleArray) {
  at::Tensor array = load_npy(kData / "array.npy");
  EXPECT_EQ(array.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_THAT(values(array), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(NpzTest, WhatIsNoNumberIsRefused) {
  EXPECT_THAT(error_of([] { load_npy(kData / "strings.npy"); }), HasSubstr("type '<U1', which is not a plain number"));
  EXPECT_THAT(error_of([] { load_npy(kData / "objects.npy"); }), HasSubstr("type '|O', which is not a plain number"));
  EXPECT_THAT(error_of([] { load_npy(kData / "records.npy"); }), HasSubstr("it holds records, not numbers"));
}

std::string npy_text(std::string_view header, std::string_view data, char version = 1) {
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  text += static_cast<char>(header.size() & 0xFF);
  text += static_cast<char>(header.size() >> 8);
  if (version > 1) {
    text.append(2, '\0');
  }
  return text.append(header).append(data);
}

std::string npy_error(std::string_view text) {
  TemporaryFolder folder;
  write_text(folder / "made.npy", text);
  std::string error = error_of([&] { load_npy(folder / "made.npy"); });
  EXPECT_THAT(error, HasSubstr("made.npy"));
  return error;
}

TEST(NpzTest, BytesOfBoolsBecomeZeroOrOne) {
  TemporaryFolder folder;
  write_text(folder / "b.npy",
             npy_text("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", std::string("\0\1\7", 3)));
  at::Tensor array = load_npy(folder / "b.npy");
  const void* data = array.const_data_ptr();
  EXPECT_EQ(std::memcmp(data, "\0\1\1", 3), 0);
}

TEST(NpzTest, LaterFormatVersionsAreRead) {
  TemporaryFolder folder;
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2L,), }\n";
  for (char version : {2, 3}) {
    write_text(folder / "v.npy", npy_text(header, "\x01\x02", version));
    EXPECT_THAT(values(load_npy(folder / "v.npy")), ElementsAre(1, 2));
  }
}

struct BadNpy {
  const char* header;
  const char* message;
};

TEST(NpzTest, DamagedHeadersAreRefused) {
  const BadNpy kCases[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "needs 12 bytes, but there are 8 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "needs 4 bytes, but there are 8 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "64 bits"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807, 8), }", "64 bits"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "no size"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "no size"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", "'}' is missing"},
      {"{'descr': '<f4', 'fortran_order': False}", "not a dictionary of descr, fortran_order and shape"},
      {"{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}", "neither True nor False"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "odd entry 'descr'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", "odd entry 'x'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", "not a dictionary"},
      {"{'descr': '<f3', 'fortran_order': False, 'shape': (2,)}", "'<f3'"},
      {"{'descr': '', 'fortran_order': False, 'shape': (2,)}", "type ''"},
      {"{'descr': '|V2', 'fortran_order': False, 'shape': (4,)}", "use safetensors"},
      {"{'descr: ", "a string is missing"},
      {"", "'{' is missing"},
  };
  for (const BadNpy& bad : kCases) {
    EXPECT_THAT(npy_error(npy_text(bad.header, "12345678")), HasSubstr(bad.message)) << bad.header;
  }
  EXPECT_THAT(npy_error("x"), HasSubstr("does not begin as one"));
  EXPECT_THAT(npy_error(npy_text("{}", "", 9)), HasSubstr("format version 9"));
  EXPECT_THAT(npy_error(npy_text("{}", "").substr(0, 12) + "x").substr(0), HasSubstr("not a dictionary"));
  EXPECT_THAT(npy_error(std::string("\x93NUMPY\x01\0\xff\xff{}", 12)), HasSubstr("a header of 65535 bytes"));
}

// Every archive cut short, and every single byte of a small one changed: an error or the right values, never a crash.
TEST(NpzTest, DamagedArchivesNeverCrash) {
  std::string good = read_text(kData / "arrays_stored.npz");
  TemporaryFolder folder;
  for (size_t length = 0; length < good.size(); length += 97) {
    write_text(folder / "cut.npz", std::string_view(good).substr(0, length));
    EXPECT_THAT(error_of([&] { load_npz(folder / "cut.npz"); }), HasSubstr("not a readable zip archive")) << length;
  }
  int refused = 0;
  for (size_t i = 0; i < good.size(); i += 3) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    write_text(folder / "flip.npz", bad);
    refused += error_of([&] { load_npz(folder / "flip.npz"); }) != "no error";
  }
  EXPECT_GT(refused, 100);
}

TEST(NpzTest, AFlippedBitInTheDataIsSeenByTheChecksum) {
  TemporaryFolder folder;
  for (const char* file : {"arrays_stored.npz", "arrays_deflated.npz"}) {
    std::string text = read_text(kData / file);
    ZipArchive archive = ZipArchive::open(kData / file);
    const ZipEntry* entry = archive.find("f8.npy");
    ASSERT_NE(entry, nullptr);
    text[entry->offset + entry->compressed - 4] ^= 1;
    write_text(folder / "flip.npz", text);
    EXPECT_THAT(error_of([&] { load_npz(folder / "flip.npz"); }),
                AllOf(HasSubstr("'f8.npy' in "), HasSubstr("is damaged")));
  }
}

TEST(NpzTest, OtherFilesAreRefused) {
  TemporaryFolder folder;
  write_text(folder / "empty.npz", "");
  EXPECT_THAT(error_of([&] { load_npz(folder / "empty.npz"); }), HasSubstr("it has 0 bytes"));
  write_text(folder / "text.npz", std::string(1'000, 'x'));
  EXPECT_THAT(error_of([&] { load_npz(folder / "text.npz"); }), HasSubstr("no directory at its end"));
  EXPECT_THAT(error_of([&] { load_npz(kData / "array.npy"); }), HasSubstr("not a readable zip archive"));
  EXPECT_THAT(error_of([&] { load_npy(kData / "arrays_stored.npz"); }), HasSubstr("does not begin as one"));
}

}  // namespace
}  // namespace exporters
