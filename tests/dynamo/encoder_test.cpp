// Encoders with every head, exported to .pt2 once and run at other sizes.
#include "exporters/dynamo/exporter.h"
#include "tests/reference/encoder_families.h"
#include "tests/support/exported_sizes.h"

#include <mutex>

namespace exporters {
namespace {

// The same kernels in the same order.
constexpr double kTolerance = 1e-5;

void register_once() {
  static std::once_flag once;
  std::call_once(once, register_dynamo_backend);
}

class DynamoEncoderImages : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { register_once(); }
};

class DynamoEncoder : public testing::EncoderFamily {
 protected:
  static void SetUpTestSuite() { register_once(); }
};

TEST_P(DynamoEncoder, RunsAtOtherSizes) {
  size_t count = 0;
  for (const auto& folder : distinct_cases()) {
    const std::shared_ptr<const models::PreTrainedModel> model = models::load(folder);
    testing::expect_exported<DynamoExporter, DynamoConfig>(model, {.batch = 1, .sequence = 1}, kTolerance);
    ++count;
  }
  EXPECT_GE(count, 2u);
}

// BERT's checkpoints stand with those of make_models.py.
class DynamoEncoderOfBert : public DynamoEncoderImages {};

TEST_F(DynamoEncoderOfBert, RunsAtOtherSizes) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(testing::reference_folder("models") / "cases")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("Bert") && name.ends_with("_0")) {
      testing::expect_exported<DynamoExporter, DynamoConfig>(models::load(entry.path()), {.batch = 1, .sequence = 1},
                                                             kTolerance);
      ++count;
    }
  }
  EXPECT_GE(count, 16u);
}

// Given a model that interpolates its positions, when it is exported at one size of images, then it runs at others.
TEST_F(DynamoEncoderImages, RunAtOtherSizesOfImages) {
  for (const char* name : {"Dinov2Model_plain_0", "Dinov2Backbone_plain_0", "Dinov2ForImageClassification_swiglu_0"}) {
    SCOPED_TRACE(name);
    testing::expect_exported_images<DynamoExporter, DynamoConfig>(
        models::load(testing::reference_folder("vision") / "dinov2" / name), kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DynamoEncoder, testing::encoder_families(), testing::family_name);

}  // namespace
}  // namespace exporters
