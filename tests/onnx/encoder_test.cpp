// Encoders with every head, exported once and run in ONNX Runtime at other sizes.
#include "exporters/onnx/exporter.h"
#include "tests/reference/encoder_families.h"
#include "tests/support/exported_sizes.h"

#include <mutex>

namespace exporters::onnx {
namespace {

// float32 sums of some tens of terms in another order, over a few layers.
constexpr double kTolerance = 2e-5;

void register_once() {
  static std::once_flag once;
  std::call_once(once, register_onnx_backend);
}

class ExportedEncoderImages : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { register_once(); }
};

class ExportedEncoder : public testing::EncoderFamily {
 protected:
  static void SetUpTestSuite() { register_once(); }
};

// Given samples of size 1, when each head of each config is exported once, then it runs at every size.
TEST_P(ExportedEncoder, RunsAtOtherSizes) {
  size_t count = 0;
  for (const auto& folder : distinct_cases()) {
    const std::shared_ptr<const models::PreTrainedModel> model = models::load(folder);
    testing::expect_exported<OnnxExporter, OnnxConfig>(model, {.batch = 1, .sequence = 1}, kTolerance);
    ++count;
  }
  EXPECT_GE(count, 2u);
}

TEST_P(ExportedEncoder, RunsAtOtherSizesAfterALargerSample) {
  testing::expect_exported<OnnxExporter, OnnxConfig>(models::load(distinct_cases().front()),
                                                     {.batch = 2, .sequence = 8}, kTolerance);
}

// BERT's checkpoints stand with those of make_models.py.
class ExportedEncoderOfBert : public ExportedEncoderImages {};

TEST_F(ExportedEncoderOfBert, RunsAtOtherSizes) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(testing::reference_folder("models") / "cases")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("Bert") && name.ends_with("_0")) {
      testing::expect_exported<OnnxExporter, OnnxConfig>(models::load(entry.path()), {.batch = 1, .sequence = 1},
                                                         kTolerance);
      ++count;
    }
  }
  EXPECT_GE(count, 16u);
}

// Given a model that interpolates its positions, when it is exported at one size of images, then it runs at others.
TEST_F(ExportedEncoderImages, RunAtOtherSizesOfImages) {
  for (const char* name : {"Dinov2Model_plain_0", "Dinov2Backbone_plain_0", "Dinov2ForImageClassification_swiglu_0"}) {
    SCOPED_TRACE(name);
    testing::expect_exported_images<OnnxExporter, OnnxConfig>(
        models::load(testing::reference_folder("vision") / "dinov2" / name), kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExportedEncoder, testing::encoder_families(), testing::family_name);

}  // namespace
}  // namespace exporters::onnx
