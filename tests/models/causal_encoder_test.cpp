// Text encoders as decoders: tests/reference/make_causal_encoders.py.
#include "exporters/models/registry.h"
#include "tests/models/decoder_recorded.h"
#include "tests/models/recorded.h"
#include "tests/reference/generation_cases.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace exporters::models {
namespace {

using testing::checkpoints;
using testing::error_of;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

fs::path reference() { return testing::reference_folder("causal_encoders"); }

class CausalEncoders : public ::testing::TestWithParam<const char*> {};

// Given random checkpoints of several configs and seeds, when they are called as generate calls them (prefill and
// decode, padded left and right) and in other ways, then the output's class, fields, cache and values are the
// reference's.
TEST_P(CausalEncoders, EqualTheReference) { EXPECT_GT(testing::expect_recorded_calls(reference() / GetParam()), 60u); }

TEST_P(CausalEncoders, HaveTheReferencesStateInItsOrder) {
  for (const fs::path& folder : checkpoints(reference() / GetParam())) {
    SCOPED_TRACE(folder.filename().string());
    testing::expect_state(*load(folder), folder);
  }
}

TEST_P(CausalEncoders, SamplesRunWithAndWithoutACache) {
  for (const fs::path& folder : checkpoints(reference() / GetParam())) {
    SCOPED_TRACE(folder.filename().string());
    for (const int64_t past : {0, 5}) {
      testing::expect_sample_runs(*load(folder), {.batch = 2, .sequence = 3, .past = past});
    }
  }
}

// Given the config of an encoder, then the class that generates is refused, with the class that computes what the
// reference makes of it; and given that of a decoder, the classes of encoders are.
TEST_P(CausalEncoders, AreWhatTheConfigSays) {
  const fs::path folder = testing::language_models(GetParam()).front();
  auto json = nlohmann::json::parse(std::ifstream(folder / "config.json"));
  const ModelConfig decoder = ModelConfig::parse(json.dump());
  EXPECT_THAT(error_of([&] { find(decoder, "fill-mask").make(decoder); }), HasSubstr("\"is_decoder\" is true"));
  json.erase("is_decoder");
  const ModelConfig encoder = ModelConfig::parse(json.dump());
  EXPECT_THAT(error_of([&] { find(encoder).make(encoder); }), HasSubstr("ForMaskedLM"));
}

TEST_P(CausalEncoders, CrossAttentionIsRefused) {
  const fs::path folder = testing::language_models(GetParam()).front();
  auto json = nlohmann::json::parse(std::ifstream(folder / "config.json"));
  const auto model = load(folder);
  EXPECT_THAT(
      error_of([&] {
        (*model)({{"input_ids", at::full({1, 2}, 7, at::kLong)}, {"encoder_hidden_states", at::ones({1, 3, 32})}});
      }),
      HasSubstr("cross-attention is not implemented"));
  for (const char* field : {"add_cross_attention", "is_causal"}) {
    auto changed = json;
    changed[field] = std::string(field) == "add_cross_attention";
    const ModelConfig config = ModelConfig::parse(changed.dump());
    EXPECT_THAT(error_of([&] { find(config).make(config); }), HasSubstr(field));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CausalEncoders, ::testing::ValuesIn(testing::kCausalEncoders), testing::test_name);

}  // namespace
}  // namespace exporters::models
