#include "exporters/weights/safetensors.h"

#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/log.h"
#include "tests/support/temporary_folder.h"
#include "tests/weights/safetensors_text.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace exporters {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::read_text;
using testing::safetensors_text;
using testing::TemporaryFolder;
using testing::tensor_text;
using testing::write_text;

const std::filesystem::path kData = std::filesystem::path(EXPORTERS_TEST_DATA) / "weights";

std::vector<double> values(const at::Tensor& tensor) {
  at::Tensor real = tensor.is_complex() ? at::view_as_real(tensor) : tensor;
  at::Tensor flat = real.to(at::kDouble).flatten();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

// What the format's own Python writer wrote, value by value.
TEST(SafetensorsFileTest, ReadsEveryDtypeOfThePythonWriter) {
  std::shared_ptr<const SafetensorsFile> file = SafetensorsFile::open(kData / "all_dtypes.safetensors");
  nlohmann::json expected = read_json(kData / "all_dtypes.json");

  ASSERT_EQ(file->entries().size(), expected.size());
  for (const auto& [name, truth] : expected.items()) {
    at::Tensor tensor = file->tensor(name);
    EXPECT_EQ(tensor.sizes().vec(), truth["shape"].get<std::vector<int64_t>>()) << name;
    EXPECT_EQ(values(tensor), truth["values"].get<std::vector<double>>()) << name;
  }
  EXPECT_EQ(file->tensor("bfloat16").scalar_type(), at::kBFloat16);
  EXPECT_EQ(file->tensor("float8_e8m0fnu").scalar_type(), at::kFloat8_e8m0fnu);
  EXPECT_EQ(file->metadata().at("format"), "pt");
}

TEST(SafetensorsFileTest, ATensorIsAViewOfTheMappedBytes) {
  std::shared_ptr<const SafetensorsFile> file = SafetensorsFile::open(kData / "all_dtypes.safetensors");
  const SafetensorsEntry* entry = file->find("float32");
  ASSERT_NE(entry, nullptr);

  at::Tensor tensor = file->tensor(*entry);

  EXPECT_EQ(tensor.const_data_ptr(), file->mapping()->bytes().data() + entry->offset);
  EXPECT_EQ(entry->nbytes, 24u);
}

TEST(SafetensorsFileTest, ATensorOutlivesTheFileObjectAndTheFile) {
  TemporaryFolder folder;
  std::filesystem::copy_file(kData / "all_dtypes.safetensors", folder / "gone.safetensors");

  at::Tensor tensor = SafetensorsFile::open(folder / "gone.safetensors")->tensor("float32");
  std::filesystem::remove(folder / "gone.safetensors");

  EXPECT_THAT(values(tensor), ElementsAre(0, 1.5, -2, 3.5, -0.25, 16));
}

TEST(SafetensorsFileTest, WritingToAViewChangesNeitherFileNorOtherViews) {
  TemporaryFolder folder;
  std::filesystem::copy_file(kData / "all_dtypes.safetensors", folder / "a.safetensors");
  std::string before = read_text(folder / "a.safetensors");

  SafetensorsFile::open(folder / "a.safetensors")->tensor("float32").fill_(7);

  EXPECT_EQ(read_text(folder / "a.safetensors"), before);
  EXPECT_EQ(values(SafetensorsFile::open(folder / "a.safetensors")->tensor("float32"))[1], 1.5);
}

TEST(SafetensorsFileTest, SourcePointsAtTheBytes) {
  std::shared_ptr<const SafetensorsFile> file = SafetensorsFile::open(kData / "all_dtypes.safetensors");
  WeightSource source = file->source(*file->find("int16"));

  std::string bytes = read_text(source.file).substr(source.offset, source.nbytes);

  EXPECT_TRUE(std::filesystem::path(source.file).is_absolute());
  EXPECT_EQ(source.key, "int16");
  EXPECT_EQ(bytes, std::string("\0\0\1\0\2\0\3\0\144\0\377\177", 12));
}

TEST(SafetensorsFileTest, TensorsAtOddAddressesAreCopiedAndSaid) {
  std::vector<std::string> messages;
  set_log_sink([&](LogLevel, std::string_view text) { messages.emplace_back(text); });

  std::shared_ptr<const SafetensorsFile> file = SafetensorsFile::open(kData / "odd_header.safetensors");
  at::Tensor tensor = file->tensor("floats");
  set_log_sink({});

  EXPECT_THAT(values(tensor), ElementsAre(1, 2, 3));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 4, 0u);
  EXPECT_THAT(messages, ElementsAre(HasSubstr("odd_header.safetensors")));
}

TEST(SafetensorsFileTest, MisalignedOffsetsAreRefused) {
  try {
    SafetensorsFile::open(kData / "misaligned.safetensors");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'floats' begins at the misaligned offset 1"));
  }
}

TEST(SafetensorsFileTest, AnUnknownNameGetsNearOnes) {
  std::shared_ptr<const SafetensorsFile> file = SafetensorsFile::open(kData / "all_dtypes.safetensors");
  EXPECT_EQ(file->find("floot32"), nullptr);
  try {
    file->tensor("floot32");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'floot32'"));
    EXPECT_THAT(error.hint(), HasSubstr("'float32'"));
  }
}

TEST(SafetensorsFileTest, ASparse40GigabyteFileCostsNoMemory) {
  TemporaryFolder folder;
  constexpr int64_t kRows = 10'000'000'000;
  std::string offsets = "[0," + std::to_string(4 * kRows) + "]";
  std::string text =
      safetensors_text("{" + tensor_text("w", "F32", "[" + std::to_string(kRows) + "]", offsets) + "}  ");
  write_text(folder / "big.safetensors", text);
  std::filesystem::resize_file(folder / "big.safetensors", text.size() + 4 * kRows);

  std::shared_ptr<const SafetensorsFile> file = SafetensorsFile::open(folder / "big.safetensors");
  at::Tensor tensor = file->tensor("w");

  // 40 GB would not fit: reading one element at the far end is all it takes.
  EXPECT_EQ(tensor.numel(), kRows);
  EXPECT_EQ(tensor[kRows - 1].item<float>(), 0.0f);
}

TEST(SaveSafetensorsTest, WritesTheBytesOfThePythonWriter) {
  TemporaryFolder folder;
  std::shared_ptr<const SafetensorsFile> file = SafetensorsFile::open(kData / "all_dtypes.safetensors");
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const SafetensorsEntry& entry : file->entries()) {
    tensors.emplace_back(entry.name, file->tensor(entry));
  }
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.first < b.first; });

  save_safetensors(folder / "ours.safetensors", tensors, {{"format", "pt"}});

  EXPECT_EQ(read_text(folder / "ours.safetensors"), read_text(kData / "all_dtypes.safetensors"));
}

TEST(SaveSafetensorsTest, WritesTheValuesOfViewsThatAreNotContiguous) {
  TemporaryFolder folder;
  at::Tensor base = at::arange(6, at::kFloat).reshape({2, 3});

  save_safetensors(folder / "t.safetensors", {{"t", base.t()}, {"row", base[1]}, {"same", base}});

  std::shared_ptr<const SafetensorsFile> file = SafetensorsFile::open(folder / "t.safetensors");
  EXPECT_EQ(file->find("t")->shape, (std::vector<int64_t>{3, 2}));
  EXPECT_THAT(values(file->tensor("t")), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(values(file->tensor("row")), ElementsAre(3, 4, 5));
}

TEST(SaveSafetensorsTest, NoTensorsMakeAValidFile) {
  TemporaryFolder folder;
  save_safetensors(folder / "none.safetensors", {});
  EXPECT_EQ(read_text(folder / "none.safetensors"), safetensors_text("{}      "));
  EXPECT_TRUE(SafetensorsFile::open(folder / "none.safetensors")->entries().empty());
}

struct Unsaveable {
  const char* title;
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  const char* message;
};

TEST(SaveSafetensorsTest, RefusesWhatTheFormatCannotHoldAndLeavesNoFile) {
  TemporaryFolder folder;
  const Unsaveable kCases[] = {
      {"repeated name", {{"a", at::zeros(1)}, {"a", at::zeros(1)}}, "two tensors with the name 'a'"},
      {"no data", {{"m", at::empty({2}, at::TensorOptions().device(at::kMeta))}}, "'m' as safetensors: it is a meta"},
      {"reserved name", {{"__metadata__", at::zeros(1)}}, "'__metadata__'"},
      {"no such dtype", {{"z", at::zeros(1, at::kComplexDouble)}}, "no dtype ComplexDouble"},
      {"not UTF-8", {{"\xff", at::zeros(1)}}, "not UTF-8"},
  };
  for (const Unsaveable& unsaveable : kCases) {
    SCOPED_TRACE(unsaveable.title);
    try {
      save_safetensors(folder / "bad.safetensors", unsaveable.tensors);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(unsaveable.message));
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace exporters
