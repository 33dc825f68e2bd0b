// What hfx exports, against what the reference computes from the same checkpoint.
#include "exporters/framework/exported_model.h"
#include "exporters/onnx/exporter.h"
#include "exporters/weights/safetensors.h"
#include "tests/cli/hfx.h"
#include "tests/reference/folder.h"
#include "tests/support/temporary_folder.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace exporters {
namespace {

namespace fs = std::filesystem;
using testing::expect_same;
using testing::hfx;
using testing::ReferenceRun;
using testing::TemporaryFolder;

// fp32 sums of up to 1536 terms in another order.
constexpr double kTolerance = 1e-5;

void export_to(const fs::path& checkpoint, const fs::path& folder, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"export", checkpoint, "--to", "onnx", "-o", folder};
  args.insert(args.end(), more.begin(), more.end());
  const auto result = hfx(args);
  ASSERT_EQ(result.code, 0) << result.err;
}

class Reference : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, onnx::register_onnx_backend);
  }
  TemporaryFolder folder_;
};

// One export serves all shapes: the checkpoint is exported once, with the sample that hfx makes itself, of shape (1,
// 8).
class MiniLm : public Reference {
 protected:
  static void SetUpTestSuite() {
    Reference::SetUpTestSuite();
    static const TemporaryFolder shared;
    exported_ = shared / "minilm";
    export_to(testing::minilm(), exported_);
  }
  static fs::path recorded(const std::string& shape) {
    return testing::reference_folder("models") / "minilm" / ("io_" + shape + ".safetensors");
  }

  static fs::path exported_;
};
fs::path MiniLm::exported_;

class MiniLmShape : public MiniLm, public ::testing::WithParamInterface<const char*> {};

TEST_P(MiniLmShape, OnnxComputesWhatTheReferenceComputes) {
  const ReferenceRun expected(recorded(GetParam()));

  const PyTree output = ExportedModel::from_pretrained(exported_)(expected.inputs);

  expect_same(output, expected, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Shapes, MiniLmShape, ::testing::Values("b1s1", "b1s128", "b2s7", "b3s512", "b64s16"));

TEST_F(MiniLm, TheCommandLineComputesTheSameFromCheckpointExportFolderAndProgramFile) {
  const ReferenceRun expected(recorded("b2s7"));
  std::vector<std::pair<std::string, at::Tensor>> inputs;
  for (const auto& [name, value] : expected.inputs) {
    inputs.emplace_back(name, value.tensor());
  }
  save_safetensors(folder_ / "in.safetensors", inputs);

  for (const fs::path& target : {testing::minilm(), exported_, exported_ / "model.onnx"}) {
    SCOPED_TRACE(target);
    const auto run = hfx({"run", target, "--inputs", folder_ / "in.safetensors", "-o", folder_ / "out.safetensors"});

    ASSERT_EQ(run.code, 0) << run.err;
    const auto written = SafetensorsFile::open(folder_ / "out.safetensors");
    std::vector<std::pair<std::string, PyTree>> fields;
    for (const SafetensorsEntry& entry : written->entries()) {
      fields.emplace_back(entry.name, written->tensor(entry));
    }
    expect_same(PyTree::object(expected.type, fields), expected, kTolerance);
  }
}

// The checkpoint's relu config holds at most 12 positions, so b3s12 is its longest sequence.
class TinyHead : public Reference, public ::testing::WithParamInterface<const char*> {};

TEST_P(TinyHead, OnnxComputesWhatTheReferenceComputesUpToTheLongestSequence) {
  const fs::path checkpoint = testing::tiny_checkpoint(std::string(GetParam()) + "_relu_0");
  export_to(checkpoint, folder_ / "out");
  const auto exported = ExportedModel::from_pretrained(folder_ / "out");

  for (const char* shape : {"b1s1", "b2s7", "b3s12"}) {
    SCOPED_TRACE(shape);
    const ReferenceRun expected(checkpoint / (std::string("io_") + shape + ".safetensors"));
    expect_same(exported(expected.inputs), expected, kTolerance);
  }
}

TEST_P(TinyHead, HiddenStatesAndAttentionsComeWithTheirFlags) {
  const fs::path checkpoint = testing::tiny_checkpoint(std::string(GetParam()) + "_relu_0");
  export_to(checkpoint, folder_ / "out", {"--forward", "output_hidden_states=true", "output_attentions=true"});
  const auto exported = ExportedModel::from_pretrained(folder_ / "out");

  const ReferenceRun expected(checkpoint / "io_b2s7_recorded.safetensors");
  expect_same(exported(expected.inputs), expected, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Bert, TinyHead,
                         ::testing::Values("BertModel", "BertForMaskedLM", "BertForSequenceClassification",
                                           "BertForTokenClassification", "BertForQuestionAnswering",
                                           "BertForMultipleChoice", "BertForNextSentencePrediction",
                                           "BertForPreTraining"));

// Folders that the reference's exporter wrote.
class ReferenceExport : public Reference, public ::testing::WithParamInterface<const char*> {};

TEST_P(ReferenceExport, LoadsAndComputesTheSame) {
  const fs::path written = testing::reference_folder("exports") / GetParam();
  const auto exported = ExportedModel::from_pretrained(written);

  for (const char* shape : {"b2s1", "b2s7", "b3s12"}) {
    SCOPED_TRACE(shape);
    const ReferenceRun expected(written / (std::string("io_") + shape + ".safetensors"));
    expect_same(exported(expected.inputs), expected, kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Bert, ReferenceExport, ::testing::Values("model", "hidden_states"));

}  // namespace
}  // namespace exporters
