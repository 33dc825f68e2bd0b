// Encoders with every head, exported to .pt2 once and run at other sizes.
#include "exporters/dynamo/exporter.h"
#include "tests/reference/encoder_families.h"
#include "tests/support/exported_sizes.h"

#include <mutex>

namespace exporters {
namespace {

// The same kernels in the same order.
constexpr double kTolerance = 1e-5;

class DynamoEncoder : public testing::EncoderFamily {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, register_dynamo_backend);
  }
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

INSTANTIATE_TEST_SUITE_P(All, DynamoEncoder, testing::encoder_families(), testing::family_name);

}  // namespace
}  // namespace exporters
