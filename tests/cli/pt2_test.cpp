// .pt2: exports of the format "dynamo", and programs of Python as sources.
#include "exporters/dynamo/exporter.h"
#include "exporters/framework/exported_model.h"
#include "exporters/onnx/exporter.h"
#include "exporters/weights/safetensors.h"
#include "tests/cli/hfx.h"
#include "tests/reference/folder.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/allclose.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <mutex>

namespace exporters {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::expect_same;
using ::testing::HasSubstr;
using testing::hfx;
using testing::ReferenceRun;
using testing::TemporaryFolder;

// fp32 sums of a few dozen terms in another order.
constexpr double kTolerance = 1e-5;

class Pt2 : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, [] {
      register_dynamo_backend();
      onnx::register_onnx_backend();
    });
  }

  void expect_error(const std::vector<std::string>& args, const ::testing::Matcher<std::string>& message) {
    const auto result = hfx(args);
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, message);
    EXPECT_FALSE(fs::exists(folder_ / "refused"));
  }

  static fs::path program(const std::string& name) {
    return testing::reference_folder("exports") / "pt2" / (name + ".pt2");
  }

  TemporaryFolder folder_;
};

// What torch.export's module computed, by the names that hfx uses.
struct Recorded {
  explicit Recorded(const std::string& name) {
    const auto file =
        SafetensorsFile::open(testing::reference_folder("exports") / "pt2" / ("io_" + name + ".safetensors"));
    for (const SafetensorsEntry& entry : file->entries()) {
      (entry.name.starts_with("in.") ? inputs : outputs)
          .emplace_back(entry.name.substr(entry.name.find('.') + 1), file->tensor(entry));
    }
  }
  NamedInputs inputs;
  std::vector<std::pair<std::string, PyTree>> outputs;
};

void expect_recorded(const PyTree& actual, const Recorded& recorded) {
  for (const auto& [path, expected] : recorded.outputs) {
    const at::Tensor tensor = actual.is_leaf() ? actual.tensor() : actual.at(path).tensor();
    ASSERT_EQ(tensor.sizes(), expected.tensor().sizes());
    EXPECT_TRUE(at::allclose(tensor, expected.tensor(), kTolerance, kTolerance)) << path;
  }
}

// ── From a checkpoint, and on to ONNX ──

class Pt2Head : public Pt2, public ::testing::WithParamInterface<const char*> {};

TEST_P(Pt2Head, ComputesWhatTheReferenceComputesAlsoLoweredFromFileAndFolder) {
  const fs::path checkpoint = testing::tiny_checkpoint(std::string(GetParam()) + "_relu_0");
  const auto exported = hfx({"export", checkpoint, "--to", "dynamo", "-o", folder_ / "traced"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  ASSERT_EQ(exported.err, "");
  for (const auto& [source, target] :
       {std::pair("traced/model.pt2", "from_file"), std::pair("traced", "from_folder")}) {
    const auto lowered = hfx({"export", folder_ / source, "--to", "onnx", "-o", folder_ / target});
    ASSERT_EQ(lowered.code, 0) << lowered.err;
  }

  for (const char* name : {"traced", "from_file", "from_folder"}) {
    const auto model = ExportedModel::from_pretrained(folder_ / name);
    EXPECT_EQ(model.component().metadata.architecture, GetParam());
    for (const char* shape : {"b1s1", "b2s7", "b3s12"}) {
      SCOPED_TRACE(std::string(name) + " " + shape);
      const ReferenceRun expected(checkpoint / (std::string("io_") + shape + ".safetensors"));
      expect_same(model(expected.inputs), expected, kTolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Bert, Pt2Head, ::testing::Values("BertForMaskedLM", "BertForMultipleChoice"));

TEST_F(Pt2, ACacheAmongTheSamplesIsRefusedByAModelThatTakesNone) {
  for (const char* part : {"cache.layers.0.keys=[[[[1.0]]]]", "cache.layers.0.keys=[1.0]"}) {
    expect_error({"export", testing::tiny_checkpoint("BertModel_relu_0"), "--to", "dynamo", "-o", folder_ / "refused",
                  "--sample", "input_ids=[[1]]", part},
                 AllOf(HasSubstr("cache.layers.0.keys"), HasSubstr("input 'cache.layers.0.keys'")));
  }
}

TEST_F(Pt2, OptionsOfATraceAreRefusedForATracedProgram) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> options = {
      {{"--batch", "1:8"}, "ranges"},
      {{"--sequence", "1:8"}, "ranges"},
      {{"--static"}, "static"},
      {{"--dtype", "float16"}, "dtype"},
      {{"--sample", "x=[[1.0]]"}, "sample"},
      {{"--task", "fill-mask"}, "task"},
      {{"--forward", "return_dict=false"}, "forward arguments"},
      {{"--set", "dynamic=true"}, "'dynamic'"}};
  for (const auto& [words, what] : options) {
    SCOPED_TRACE(words.front());
    std::vector<std::string> args = {"export", program("mixed"), "--to", "onnx", "-o", folder_ / "refused"};
    args.insert(args.end(), words.begin(), words.end());
    expect_error(args, AllOf(HasSubstr("traced already"), HasSubstr(what)));
  }
}

TEST_F(Pt2, AnOnnxFileIsNoSource) {
  const auto onnx = testing::reference_folder("exports") / "model" / "model.onnx";
  expect_error({"export", onnx, "--to", "dynamo", "-o", folder_ / "refused"},
               AllOf(HasSubstr("no traced program"), HasSubstr(".pt2")));
}

// ── Programs of Python ──

class Pt2Format : public Pt2, public ::testing::WithParamInterface<const char*> {};

TEST_P(Pt2Format, PositionalNestedUnusedAndPassedThroughArgumentsKeepTheirNames) {
  const auto result = hfx({"export", program("mixed"), "--to", GetParam(), "-o", folder_ / "out"});
  ASSERT_EQ(result.code, 0) << result.err;

  const auto model = ExportedModel::from_pretrained(folder_ / "out");
  std::vector<std::string> names;
  for (const auto& kwarg : model.component().metadata.kwargs) {
    names.push_back(kwarg.name);
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("x", "pair", "mask", "unused"));
  for (const char* size : {"b2", "b7"}) {
    const Recorded recorded(std::string("mixed_") + size);
    expect_recorded(model(recorded.inputs), recorded);
  }
}

TEST_P(Pt2Format, TrainingModeIsRefusedOrSwitchedWithAWord) {
  for (const char* name : {"trained", "trained_images"}) {
    SCOPED_TRACE(name);
    expect_error({"export", program(name), "--to", GetParam(), "-o", folder_ / "refused"},
                 AllOf(HasSubstr("training mode"), HasSubstr("batch_norm"), HasSubstr("norm"), HasSubstr("--eval")));

    const auto switched = hfx({"export", program(name), "--to", GetParam(), "-o", folder_ / name, "--eval"});
    ASSERT_EQ(switched.code, 0) << switched.err;
    EXPECT_THAT(switched.err, HasSubstr("2 calls"));

    const auto model = ExportedModel::from_pretrained(folder_ / name);
    for (const char* size : {"b1", "b5"}) {
      const Recorded recorded(std::string(name) + "_" + size);
      expect_recorded(model(recorded.inputs), recorded);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Pt2Format, ::testing::Values("onnx", "dynamo"));

// float32, int64 and bool inputs.
TEST_F(Pt2, NumbersOnTheCommandLineTakeTheDtypesOfTheProgram) {
  const auto result = hfx({"run", program("mixed"), "--inputs", "x=[[1, 2, 3]]", "pair.0=[[0, 1, 0]]",
                           "pair.1=[[2, 2, 2.5]]", "mask=[[1], [0]]", "unused=[1]", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(Pt2, ALoneProgramRunsAndIsInspected) {
  const Recorded recorded("mixed_b7");
  std::vector<std::pair<std::string, at::Tensor>> inputs;
  for (const auto& [name, value] : recorded.inputs) {
    inputs.emplace_back(name, value.tensor());
  }
  save_safetensors(folder_ / "in.safetensors", inputs);

  const auto run =
      hfx({"run", program("mixed"), "--inputs", folder_ / "in.safetensors", "-o", folder_ / "out.safetensors"});
  const auto inspected = hfx({"inspect", program("mixed"), "--json"});

  ASSERT_EQ(run.code, 0) << run.err;
  const auto written = SafetensorsFile::open(folder_ / "out.safetensors");
  std::vector<std::pair<std::string, PyTree>> outputs;
  for (const SafetensorsEntry& entry : written->entries()) {
    outputs.emplace_back(entry.name, written->tensor(entry));
  }
  expect_recorded(PyTree::dict(outputs), recorded);
  ASSERT_EQ(inspected.code, 0) << inspected.err;
  const json description = json::parse(inspected.out).begin().value();
  EXPECT_EQ(description.at("inputs").at("unused").at("dtype"), "bool");
  EXPECT_EQ(description.at("inputs").at("pair.1").at("shape").size(), 2U);
  EXPECT_TRUE(description.at("ops").contains("aten.add.Tensor") || description.at("ops").contains("aten.sub.Tensor"));
}

// ── Folders of the reference's exporter ──

class ReferencePt2 : public Pt2, public ::testing::WithParamInterface<const char*> {};

TEST_P(ReferencePt2, FolderLoadsAndComputesTheSame) {
  const fs::path written = testing::reference_folder("exports") / (std::string("dynamo_") + GetParam());
  const auto exported = ExportedModel::from_pretrained(written);

  EXPECT_EQ(exported.dtype(), at::kFloat);
  EXPECT_EQ(exported.config()->model_type(), "bert");
  for (const char* shape : {"b2s7", "b3s12"}) {
    SCOPED_TRACE(shape);
    const ReferenceRun expected(written / (std::string("io_") + shape + ".safetensors"));
    expect_same(exported(expected.inputs), expected, kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Bert, ReferencePt2, ::testing::Values("model", "hidden_states"));

}  // namespace
}  // namespace exporters
