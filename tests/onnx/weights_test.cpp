// Where the weights of saved models are: in a copy, in links, in the files they come from, in the model itself.
#include "exporters/onnx/emit/reader.h"
#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/emit/writer.h"
#include "exporters/onnx/runner.h"
#include "exporters/support/atomic_file.h"
#include "exporters/support/error.h"
#include "tests/onnx/support.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

namespace exporters::onnx {
namespace {

using namespace testing;
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr WeightsMode kModes[] = {WeightsMode::kCopy, WeightsMode::kLink, WeightsMode::kReference,
                                  WeightsMode::kInline};

// A folder "models" that holds "weights/first" and "weights/second", each with a matrix [3, 2] behind some bytes of
// another kind, as a checkpoint has them behind its header.
class Weights : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "weights");
    write_source("first", 13, first_);
    write_source("second", 4099, second_);
  }

  void write_source(const std::string& name, size_t offset, const at::Tensor& values) {
    std::string bytes(offset, '#');
    bytes.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
    write_bytes(folder_ / "weights" / name, bytes);
  }
  WeightSource source(const std::string& name) const {
    return {fs::canonical(folder_ / "weights" / name).string(), name, name == "first" ? 13u : 4099u, 24};
  }

  // y = x · first + x · second + x · memory + x · first, the last through another initializer: tied weights.
  OnnxModel model() const {
    OnnxModel model = linear_model(source("first"));
    model.graph.initializers.push_back({"w2", OnnxType::kFloat, {3, 2}, source("second")});
    model.graph.initializers.push_back({"w3", OnnxType::kFloat, {3, 2}, memory_});
    model.graph.initializers.push_back({"w4", OnnxType::kFloat, {3, 2}, source("first")});
    model.graph.nodes = {{"a", "MatMul", "", {"x", "w"}, {"a"}, {}},
                         {"b", "MatMul", "", {"x", "w2"}, {"b"}, {}},
                         {"c", "MatMul", "", {"x", "w3"}, {"c1"}, {}},
                         {"d", "MatMul", "", {"x", "w4"}, {"d"}, {}},
                         {"y", "Sum", "", {"a", "b", "c1", "d"}, {"y"}, {}}};
    return model;
  }
  at::Tensor expected(const at::Tensor& x) const { return x.matmul(first_.mul(2).add(second_).add(memory_)); }

  void expect_runs(const fs::path& file) const {
    const at::Tensor x = at::randn({5, 3});
    // Sums of twelve products.
    EXPECT_TRUE(at::allclose(OnnxRunner(file).run({{"x", x}})[0].second, expected(x), 1e-5, 1e-5)) << file;
  }
  static std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  const at::Tensor first_ = at::randn({3, 2});
  const at::Tensor second_ = at::randn({3, 2});
  const at::Tensor memory_ = at::randn({3, 2});
  const fs::path folder_ = scratch_folder();
};

TEST_F(Weights, EveryModeRunsAndGivesTheSameBytesAgain) {
  for (const WeightsMode mode : kModes) {
    save_model(model(), folder_ / "m.onnx", {.weights = mode});
    expect_runs(folder_ / "m.onnx");
    const std::string bytes = read_bytes(folder_ / "m.onnx");
    const std::string data = read_bytes(folder_ / "m.onnx.data");

    save_model(model(), folder_ / "m.onnx", {.weights = mode});

    EXPECT_EQ(read_bytes(folder_ / "m.onnx"), bytes);
    EXPECT_EQ(read_bytes(folder_ / "m.onnx.data"), data);
  }
}

TEST_F(Weights, ACopyStandsAlone) {
  fs::create_directories(folder_ / "out");
  save_model(model(), folder_ / "out" / "m.onnx");
  fs::remove_all(folder_ / "weights");

  expect_runs(folder_ / "out" / "m.onnx");
  EXPECT_THAT(names_in(folder_ / "out"), UnorderedElementsAre("m.onnx", "m.onnx.data"));
}

TEST_F(Weights, LinksAreTheFilesThemselves) {
  fs::create_directories(folder_ / "out");
  save_model(model(), folder_ / "out" / "m.onnx", {.weights = WeightsMode::kLink});

  EXPECT_THAT(names_in(folder_ / "out"),
              UnorderedElementsAre("m.onnx", "m.onnx.data", "m.onnx.data.2", "m.onnx.data.extra"));
  EXPECT_TRUE(fs::equivalent(folder_ / "out" / "m.onnx.data", folder_ / "weights" / "first"));
  EXPECT_TRUE(fs::equivalent(folder_ / "out" / "m.onnx.data.2", folder_ / "weights" / "second"));
  EXPECT_EQ(fs::file_size(folder_ / "out" / "m.onnx.data.extra"), 24u);
  fs::remove_all(folder_ / "weights");
  expect_runs(folder_ / "out" / "m.onnx");
}

TEST_F(Weights, AReferenceWritesTheGraphAndWhatHasNoFile) {
  save_model(model(), folder_ / "m.onnx", {.weights = WeightsMode::kReference});

  EXPECT_THAT(names_in(folder_), UnorderedElementsAre("m.onnx", "m.onnx.data", "weights"));
  EXPECT_EQ(fs::file_size(folder_ / "m.onnx.data"), 24u);
  fs::rename(folder_ / "weights" / "second", folder_ / "weights" / "renamed");
  EXPECT_THAT(error_of([&] { OnnxRunner(folder_ / "m.onnx"); }),
              AllOf(HasSubstr("'w2'"), HasSubstr("weights/second"), HasSubstr("not in the model's folder")));
  fs::rename(folder_ / "weights" / "renamed", folder_ / "weights" / "second");
  fs::resize_file(folder_ / "weights" / "second", 4100);
  EXPECT_THAT(error_of([&] { OnnxRunner(folder_ / "m.onnx"); }),
              AllOf(HasSubstr("'w2'"), HasSubstr("only 4100 bytes"), HasSubstr("truncated")));
}

// A folder that is being built has another name, and does not hold the weights yet.
TEST_F(Weights, AReferencePointsFromWhereTheFolderWillBe) {
  const fs::path aside = folder_.string() + ".aside";
  fs::create_directories(aside);
  save_model(model(), aside / "m.onnx", {.weights = WeightsMode::kReference, .target = folder_});
  for (const std::string& name : names_in(aside)) {
    fs::rename(aside / name, folder_ / name);
  }
  fs::remove_all(aside);

  expect_runs(folder_ / "m.onnx");
}

TEST_F(Weights, AReferenceToFilesElsewhereIsRefusedWithTheWayOut) {
  fs::create_directories(folder_ / "out");
  const std::string error =
      error_of([&] { save_model(model(), folder_ / "out" / "m.onnx", {.weights = WeightsMode::kReference}); });

  EXPECT_THAT(error, AllOf(HasSubstr("weights/first"), HasSubstr("not in"), HasSubstr("weights=link")));
  EXPECT_THAT(names_in(folder_ / "out"), ElementsAre());
}

TEST_F(Weights, InlineModelsHoldTiedWeightsOnce) {
  save_model(model(), folder_ / "m.onnx", {.weights = WeightsMode::kInline});

  EXPECT_EQ(fs::file_size(folder_ / "m.onnx.data"), 0u);
  const OnnxModel read = read_model(folder_ / "m.onnx");
  std::vector<std::string> names;
  for (const OnnxTensor& tensor : read.graph.initializers) {
    names.push_back(tensor.name);
  }
  EXPECT_THAT(names, ElementsAre("w", "c", "w2", "w3"));
  // As protobuf itself would write it: the message that holds everything in memory has the same bytes.
  EXPECT_EQ(serialize(read), read_bytes(folder_ / "m.onnx"));
  fs::remove_all(folder_ / "weights");
  expect_runs(folder_ / "m.onnx");
}

TEST_F(Weights, InlineModelsHoldWeightsOfNestedGraphs) {
  OnnxModel model = linear_model(source("first"));
  auto body = std::make_shared<OnnxGraph>();
  body->name = "body";
  body->initializers = {{"w", OnnxType::kFloat, {3, 2}, source("second")}};
  model.graph.nodes[1].attributes.push_back({"body", body});
  save_model(model, folder_ / "m.onnx", {.weights = WeightsMode::kInline});

  const OnnxModel read = read_model(folder_ / "m.onnx");
  const auto& nested = std::get<std::shared_ptr<OnnxGraph>>(read.graph.nodes[1].attributes[0].data);
  const std::string& bytes = std::get<InlineBytes>(nested->initializers[0].data).bytes;
  EXPECT_EQ(bytes, std::string(static_cast<const char*>(second_.const_data_ptr()), 24));
}

TEST_F(Weights, MoreThanTwoGigabytesInlineAreRefusedBeforeAnythingIsWritten) {
  const int64_t rows = int64_t{1} << 28;  // 2 GiB as float32 [rows, 2]
  write_bytes(folder_ / "weights" / "huge", "");
  fs::resize_file(folder_ / "weights" / "huge", static_cast<uint64_t>(rows) * 8);
  OnnxModel model = linear_model(WeightSource{(folder_ / "weights" / "huge").string(), "huge", 0, 1ull << 31});
  model.graph.initializers[0].dims = {rows, 2};
  std::vector<std::pair<std::string, OnnxModel>> models;
  models.emplace_back("small.onnx", linear_model(source("first")));
  models.emplace_back("huge.onnx", std::move(model));

  const std::string error =
      error_of([&] { save_models(std::move(models), folder_, {.weights = WeightsMode::kInline}); });

  EXPECT_THAT(error, AllOf(HasSubstr("2 GB"), HasSubstr("external data")));
  EXPECT_THAT(names_in(folder_), ElementsAre("weights"));
}

TEST_F(Weights, ModelsOfOneFolderShareTheirFiles) {
  for (const WeightsMode mode : {WeightsMode::kCopy, WeightsMode::kLink, WeightsMode::kReference}) {
    const fs::path out = mode == WeightsMode::kReference ? folder_ : folder_ / "out";
    fs::create_directories(out);
    save_models({{"a.onnx", model()}, {"b.onnx", model()}}, out, {.weights = mode});

    EXPECT_EQ(fs::file_size(out / "b.onnx.data"), 0u);
    expect_runs(out / "a.onnx");
    expect_runs(out / "b.onnx");
    fs::remove_all(folder_ / "out");
  }
}

TEST_F(Weights, HolesOfASparseSourceStayHoles) {
  const uint64_t nbytes = 1ull << 30;
  fs::resize_file(folder_ / "weights" / "first", 13 + nbytes);
  for (const WeightsMode mode : kModes) {
    OnnxModel model = linear_model(WeightSource{(folder_ / "weights" / "first").string(), "first", 13, nbytes});
    model.graph.initializers[0].dims = {1 << 27, 2};
    save_model(std::move(model), folder_ / "m.onnx", {.weights = mode});
    for (const char* name : {"m.onnx", "m.onnx.data"}) {
      struct stat info {};
      ASSERT_EQ(stat((folder_ / name).c_str(), &info), 0);
      EXPECT_LT(info.st_blocks * 512, 1 << 20) << name;
    }
  }
}

TEST_F(Weights, AFileThatBecameShorterIsRefusedAndTheOldModelStays) {
  for (const WeightsMode mode : kModes) {
    save_model(model(), folder_ / "m.onnx", {.weights = mode});
    const std::string before = read_bytes(folder_ / "m.onnx");
    fs::resize_file(folder_ / "weights" / "second", 4100);

    EXPECT_THAT(error_of([&] { save_model(model(), folder_ / "m.onnx", {.weights = mode}); }),
                AllOf(HasSubstr("second"), HasSubstr("4100 bytes")));

    EXPECT_EQ(read_bytes(folder_ / "m.onnx"), before);
    write_source("second", 4099, second_);
  }
}

// ── Links ──

TEST(LinkFile, TakesThePlaceOfWhatWasThereAndLeavesNothingElse) {
  const auto folder = scratch_folder();
  write_bytes(folder / "source", "weights");
  write_bytes(folder / "target", "old");

  link_file(folder / "source", folder / "target");
  link_file(folder / "source", folder / "target");

  EXPECT_TRUE(fs::equivalent(folder / "source", folder / "target"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);
}

TEST(LinkFile, AnotherFileSystemIsSaidWithTheWayOut) {
  struct stat here {};
  struct stat there {};
  const auto folder = scratch_folder();
  ASSERT_EQ(stat("/proc/version", &there), 0);
  ASSERT_EQ(stat(folder.c_str(), &here), 0);
  ASSERT_NE(here.st_dev, there.st_dev);

  EXPECT_THAT(error_of([&] { link_file("/proc/version", folder / "link"); }),
              AllOf(HasSubstr("different file systems"), HasSubstr("copy")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 0);
}

}  // namespace
}  // namespace exporters::onnx
