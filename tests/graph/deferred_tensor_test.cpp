#include "exporters/graph/deferred_tensor.h"

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace exporters {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::write_text;

class Deferred : public ::testing::Test {
 protected:
  // A weight behind `offset` other bytes of a file.
  WeightSource store(const at::Tensor& values, uint64_t offset) {
    const std::string text(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
    write_text(file_, std::string(offset, 'x') + text);
    return {file_.string(), "w", offset, values.nbytes()};
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "weights";
};

TEST_F(Deferred, HasTheValuesThatAConversionGives) {
  const at::Tensor values = at::randn({3, 1000}, at::kFloat);
  for (const uint64_t offset : {0, 3}) {  // also where no vectorised loop could read in place
    for (const auto dtype : {at::kHalf, at::kBFloat16, at::kDouble}) {
      const at::Tensor deferred = defer_conversion(store(values, offset), at::kFloat, values.sizes(), dtype);

      EXPECT_EQ(deferred.scalar_type(), dtype);
      EXPECT_EQ(deferred.sizes(), values.sizes());
      EXPECT_TRUE(deferred.is_cpu());
      EXPECT_TRUE(at::equal(undeferred(deferred), values.to(dtype)));
    }
  }
}

// More than one piece, and the last one short.
TEST_F(Deferred, LargeTensorsComeInPieces) {
  const at::Tensor values = at::randn({3, 1'000'001}, at::kFloat);
  const at::Tensor deferred = defer_conversion(store(values, 8), at::kFloat, values.sizes(), at::kHalf);

  size_t pieces = 0;
  size_t largest = 0;
  const ByteSink sink = {.write =
                             [&](std::span<const std::byte> bytes) {
                               ++pieces;
                               largest = std::max(largest, bytes.size());
                             },
                         .write_zeros = [](uint64_t) { FAIL() << "no hole was written"; }};
  write_deferred(deferred, sink);

  EXPECT_GT(pieces, 1u);
  EXPECT_LE(largest, 8u << 20);
  EXPECT_TRUE(at::equal(undeferred(deferred), values.to(at::kHalf)));
}

TEST_F(Deferred, HolesOfASparseFileAreZeros) {
  const int64_t elements = int64_t{1} << 30;
  write_text(file_, "header");
  ASSERT_EQ(::truncate(file_.c_str(), static_cast<off_t>(6 + 4 * elements)), 0);
  const WeightSource source{file_.string(), "w", 6, static_cast<uint64_t>(4 * elements)};
  uint64_t zeros = 0;
  uint64_t written = 0;
  write_deferred(defer_conversion(source, at::kFloat, {elements}, at::kHalf),
                 {.write = [&](std::span<const std::byte> bytes) { written += bytes.size(); },
                  .write_zeros = [&](uint64_t nbytes) { zeros += nbytes; }});

  EXPECT_EQ(zeros + written, static_cast<uint64_t>(2 * elements));
  EXPECT_LT(written, 16u << 20);  // the piece that begins in the header's block
}

// Parts of several dtypes, one behind the other in the file and in the tensor.
TEST_F(Deferred, JoinsParts) {
  const at::Tensor first = at::randn({2, 3}, at::kFloat);
  const at::Tensor second = at::randn({1, 3}, at::kFloat).to(at::kBFloat16);
  const at::Tensor third = at::randn({5, 3}, at::kFloat);
  std::string bytes = "header.";
  std::vector<StoredValues> parts;
  for (const at::Tensor& part : {third, first, second}) {
    const WeightSource source{file_.string(), "w" + std::to_string(parts.size()), bytes.size(), part.nbytes()};
    parts.push_back({source, part.scalar_type()});
    bytes.append(static_cast<const char*>(part.const_data_ptr()), part.nbytes());
  }
  write_text(file_, bytes);
  for (const auto dtype : {at::kFloat, at::kHalf}) {
    const at::Tensor joined = defer_join({parts[1], parts[2], parts[0]}, {2, 4, 3}, dtype);

    EXPECT_TRUE(at::equal(undeferred(joined).view({8, 3}), at::cat({first, second.to(at::kFloat), third}).to(dtype)));
  }
  const at::Tensor joined = defer_join(parts, {8, 3}, at::kFloat);
  EXPECT_THAT(error_of([&] { undeferred(joined.select(0, 0)); }), HasSubstr("'w0'"));
  try {
    at::add(joined, 1);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'w0' to 'w2'"), HasSubstr("joined"), HasSubstr("no data")));
  }
}

TEST_F(Deferred, PartsThatDoNotFitAreErrors) {
  const WeightSource source = store(at::randn({4}), 0);
  const StoredValues part{source, at::kFloat};
  EXPECT_THAT(error_of([&] { defer_join({}, {0}, at::kFloat); }), HasSubstr("no parts"));
  EXPECT_THAT(error_of([&] { defer_join({part}, {8}, at::kFloat); }), HasSubstr("16 bytes"));
  EXPECT_THAT(error_of([&] { defer_join({part, part}, {7}, at::kFloat); }), HasSubstr("16 bytes"));
  EXPECT_THAT(error_of([&] {
                defer_join({{source, at::kFloat}, {{source.file, "v", 0, 3}, at::kFloat}}, {4}, at::kFloat);
              }),
              HasSubstr("'v' has 3 bytes"));
}

TEST_F(Deferred, ReadingItsDataIsAnErrorThatSaysWhy) {
  const at::Tensor values = at::randn({4});
  const at::Tensor deferred = defer_conversion(store(values, 0), at::kFloat, {4}, at::kHalf);

  try {
    at::add(deferred, 1);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'w'"), HasSubstr("float32 to float16"), HasSubstr("no data")));
  }
}

TEST_F(Deferred, APartOfItIsAnError) {
  const at::Tensor deferred = defer_conversion(store(at::randn({4, 2}), 0), at::kFloat, {4, 2}, at::kHalf);

  EXPECT_THAT(error_of([&] { undeferred(deferred.t()); }), HasSubstr("'w'"));
  EXPECT_THAT(error_of([&] { undeferred(deferred.select(0, 0)); }), HasSubstr("'w'"));
}

TEST_F(Deferred, SizesThatDoNotFitAreErrors) {
  const WeightSource source = store(at::randn({4}), 0);
  EXPECT_THAT(error_of([&] { defer_conversion(source, at::kFloat, {5}, at::kHalf); }), HasSubstr("16 bytes"));

  const at::Tensor deferred = defer_conversion(source, at::kFloat, {4}, at::kHalf);
  std::filesystem::resize_file(file_, 15);
  EXPECT_THAT(error_of([&] { undeferred(deferred); }), AllOf(HasSubstr("weights"), HasSubstr("15 bytes")));
}

TEST_F(Deferred, TensorsWithDataStayWhatTheyAre) {
  const at::Tensor plain = at::zeros({2});
  EXPECT_EQ(deferred_conversion(plain), nullptr);
  EXPECT_TRUE(undeferred(plain).is_same(plain));
}

}  // namespace
}  // namespace exporters
