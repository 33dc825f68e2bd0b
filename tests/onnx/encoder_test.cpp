// Encoders with every head, exported once and run in ONNX Runtime at other sizes.
#include "exporters/onnx/exporter.h"
#include "tests/reference/encoder_families.h"
#include "tests/support/exported_sizes.h"

#include <mutex>

namespace exporters::onnx {
namespace {

// float32 sums of some tens of terms in another order, over a few layers.
constexpr double kTolerance = 2e-5;

class ExportedEncoder : public testing::EncoderFamily {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, register_onnx_backend);
  }
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

INSTANTIATE_TEST_SUITE_P(All, ExportedEncoder, testing::encoder_families(), testing::family_name);

}  // namespace
}  // namespace exporters::onnx
