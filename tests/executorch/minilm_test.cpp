// all-MiniLM-L6-v2 from the checkpoint to a file that ExecuTorch runs.
#include "exporters/executorch/report.h"
#include "exporters/framework/export_target.h"
#include "exporters/framework/target.h"
#include "tests/executorch/exported.h"
#include "tests/executorch/support.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cstdlib>

namespace exporters::executorch {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int64_t kLongest = 512;  // max_position_embeddings

fs::path checkpoint() {
  const char* models = std::getenv("EXPORTERS_MODELS");
  return fs::path(models == nullptr ? ".deps/models" : models) / "all-MiniLM-L6-v2";
}

NamedInputs sentence(int64_t batch, int64_t length) {
  at::Tensor mask = at::ones({batch, length}, at::kLong);
  for (int64_t row = 1; row < batch; ++row) {
    mask[row].slice(0, std::max<int64_t>(1, length - row)).zero_();
  }
  return {{"input_ids", at::randint(0, 30522, {batch, length}, at::kLong)},
          {"attention_mask", mask},
          {"token_type_ids", at::zeros({batch, length}, at::kLong)}};
}

struct MiniLm : ::testing::TestWithParam<const char*> {
  static void SetUpTestSuite() { [[maybe_unused]] static const bool registered = (register_executorch_format(), true); }
};

INSTANTIATE_TEST_SUITE_P(Backends, MiniLm, ::testing::Values("xnnpack", "portable"),
                         [](const auto& info) { return std::string(info.param); });

// 1e-4: float32 sums in another order through six layers; the hidden state is of order 1.
TEST_P(MiniLm, AgreesWithTheModelAtEverySize) {
  at::manual_seed(0);
  ExportRequest request;
  request.source = checkpoint();
  request.format = "executorch";
  request.settings = {{"backend", GetParam()}, {"max_dims", R"({"batch": 4})"}};
  const fs::path folder = scratch_folder();
  export_target(request).save_pretrained(folder);
  const ExportedModel exported = ExportedModel::from_pretrained(folder);
  const Runnable eager = open_target(checkpoint());
  for (const auto& [batch, length] : {std::pair<int64_t, int64_t>(1, 1), {4, 7}, {2, 33}, {1, kLongest}, {3, 128}}) {
    const NamedInputs inputs = sentence(batch, length);
    const PyTree expected = eager(inputs);
    const PyTree actual = exported(inputs);
    for (const char* output : {"last_hidden_state", "pooler_output"}) {
      const at::Tensor difference = (actual.at(output).tensor() - expected.at(output).tensor()).abs();
      ASSERT_EQ(difference.dim(), expected.at(output).tensor().dim());
      // What padding tokens have for a hidden state nobody reads.
      const at::Tensor mask = inputs[1].second.tensor().to(at::kFloat);
      const at::Tensor seen = difference.dim() == 3 ? difference * mask.unsqueeze(-1) : difference;
      EXPECT_LE(seen.max().item<double>(), 1e-4) << output << " at batch " << batch << ", length " << length;
    }
  }
  const NamedInputs last = sentence(2, 9);
  Tensors tensors;
  for (const auto& [name, value] : last) {
    tensors.push_back(value.tensor());
  }
  const PyTree result = exported(last);
  keep_for_python(folder / "model.pte", tensors,
                  {result.at("last_hidden_state").tensor(), result.at("pooler_output").tensor()});
}

TEST(MiniLmExport, WantsABoundForTheBatch) {
  use_executorch();
  ExportRequest request;
  request.source = checkpoint();
  request.format = "executorch";
  EXPECT_THAT(error_of([&] { export_target(request); }), HasSubstr("--max-dim batch=N"));
}

}  // namespace
}  // namespace exporters::executorch
