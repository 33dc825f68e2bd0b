// Operators of ONNX Runtime's own (ort_fusions), and what decode steps are made of: in ONNX Runtime against eager, and
// tokens against the reference's.
#include "exporters/onnx/exporter.h"
#include "exporters/support/error.h"
#include "tests/onnx/exported.h"
#include "tests/reference/generation_export.h"
#include "tests/support/error_of.h"
#include "tests/support/warnings.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

namespace exporters::onnx {
namespace {

using namespace testing;
namespace fs = std::filesystem;
using exporters::testing::expect_reference_tokens;
using exporters::testing::exported_for_generation;
using exporters::testing::language_models;
using exporters::testing::TemporaryFolder;
using exporters::testing::Warnings;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const ExportSettings kCpu{.ort_fusions = "cpu"};

// ── Attention behind a cache ──

enum class Hides { kLaterKeys, kLaterKeysAndPadding, kGiven };

// Numbers and sizes of heads come from a model's config: they are no sizes of a program.
void fix_heads(const Tensors& t) {
  for (size_t i = 0; i < 5; ++i) {
    for (const int64_t axis : {1, 3}) {
      t[i].sym_size(axis).guard_int(__FILE__, __LINE__);
    }
  }
}

// What takes a cache's keys, but for its sizes.
std::set<std::string> takers_of_keys(const OnnxModel& model) {
  std::set<std::string> ops;
  for (const OnnxNode& node : model.graph.nodes) {
    if (node.op_type != "Shape" && std::find(node.inputs.begin(), node.inputs.end(), "x0") != node.inputs.end()) {
      ops.insert(node.op_type);
    }
  }
  return ops;
}

std::vector<std::string> about_fusions(const Warnings& warnings) {
  std::vector<std::string> texts;
  std::copy_if(warnings.texts.begin(), warnings.texts.end(), std::back_inserter(texts),
               [](const std::string& text) { return text.find("GroupQueryAttention") != std::string::npos; });
  return texts;
}

// One layer's decode step: past keys and values, new queries (4 heads), keys and values (2 heads), and a mask: of keys
// that are padding, [batch, keys], or of all pairs, [batch, 1, queries, keys]. Gives what the layer gives, and the
// cache.
Forward decode_step(Hides hides) {
  return [hides](const Tensors& t) {
    fix_heads(t);
    const at::Tensor keys = at::cat({t[0], t[3]}, 2);
    const at::Tensor values = at::cat({t[1], t[4]}, -2);
    const c10::SymInt past = t[0].sym_size(2);
    const auto places = [](const c10::SymInt& from, const c10::SymInt& to) {
      return at::arange(from, to, at::TensorOptions().dtype(at::kLong)).unsqueeze(0);
    };
    at::Tensor mask = at::le(places(0, keys.sym_size(2)).unsqueeze(1).unsqueeze(2),
                             places(past, past + t[2].sym_size(2)).unsqueeze(1).unsqueeze(3));
    if (hides == Hides::kLaterKeysAndPadding) {
      mask = at::bitwise_and(mask, t[5].to(at::kBool).unsqueeze(1).unsqueeze(1));
    } else if (hides == Hides::kGiven) {
      mask = t[5].to(at::kBool);
    }
    return Tensors{at::scaled_dot_product_attention(t[2], keys, values, mask, 0.0, false, 0.4, /*enable_gqa=*/true),
                   keys, values};
  };
}

struct StepSize {
  int64_t batch;
  int64_t queries;
  int64_t past;
};

Tensors step_inputs(Hides hides, const StepSize& size) {
  const auto states = [&](int64_t heads, int64_t length) { return at::randn({size.batch, heads, length, 8}); };
  Tensors inputs = {states(2, size.past), states(2, size.past), states(4, size.queries), states(2, size.queries),
                    states(2, size.queries)};
  const int64_t total = size.past + size.queries;
  if (hides == Hides::kLaterKeysAndPadding) {
    at::Tensor padding = at::ones({size.batch, total}, at::kLong);
    if (size.batch > 1) {
      padding.select(0, 0).slice(0, 0, 2).fill_(0);  // on the left of the first row
    }
    inputs.push_back(padding);
  } else if (hides == Hides::kGiven) {
    at::Tensor mask = at::randint(0, 2, {size.batch, 1, size.queries, total}, at::kLong);
    mask.select(3, 0).fill_(1);
    inputs.push_back(mask);
  }
  return inputs;
}

std::vector<Tensors> steps(Hides hides, const std::vector<StepSize>& sizes) {
  std::vector<Tensors> result;
  for (const StepSize& size : sizes) {
    result.push_back(step_inputs(hides, size));
  }
  return result;
}

// Decode steps, a prompt into an empty cache (with rows that see nothing), and a part of a prompt.
const std::vector<StepSize> kSizes = {{2, 1, 5}, {1, 1, 1}, {3, 1, 9}, {2, 4, 0}, {1, 1, 0}, {1, 3, 4}};

TEST(OnnxDecodeStep, AttentionJoinsTheCacheByItself) {
  for (const Hides hides : {Hides::kLaterKeys, Hides::kLaterKeysAndPadding, Hides::kGiven}) {
    const Exported model(decode_step(hides), step_inputs(hides, {2, 2, 3}), ExportSettings());
    EXPECT_EQ(count_ops(model.model(), "Attention"), 1u);
    if (hides != Hides::kLaterKeys) {  // without a mask, the sum of both lengths is read from what has it
      EXPECT_THAT(takers_of_keys(model.model()), ElementsAre("Attention"));
    }
    EXPECT_EQ(model.model().opset("com.microsoft"), std::nullopt);
    model.expect_as_eager(steps(hides, kSizes));
    model.expect_as_eager(steps(hides, {{2, 3, 4}}));
  }
}

TEST(OnnxOrtFusions, CausalAttentionBehindACacheIsGroupQueryAttention) {
  for (const Hides hides : {Hides::kLaterKeys, Hides::kLaterKeysAndPadding}) {
    const Warnings warnings;
    const Exported model(decode_step(hides), step_inputs(hides, {2, 2, 3}), kCpu);
    EXPECT_THAT(about_fusions(warnings), IsEmpty());
    EXPECT_EQ(count_ops(model.model(), "GroupQueryAttention"), 1u);
    if (hides != Hides::kLaterKeys) {
      EXPECT_THAT(takers_of_keys(model.model()), ElementsAre("GroupQueryAttention"));
    }
    EXPECT_EQ(model.model().opset("com.microsoft"), 1);
    model.expect_as_eager(steps(hides, kSizes));
    // What the operator does not take is refused before it runs.
    EXPECT_THAT(exporters::testing::error_of([&] {
                  model.run(step_inputs(hides, {2, 3, 4}));
                }),
                HasSubstr("the program was exported for sizes with"));
  }
}

// Every opset is the one that was asked for, with what its operators are.
TEST(OnnxDecodeStep, RunsAtEveryOpset) {
  for (int64_t opset = 18; opset <= 24; ++opset) {
    const Exported model(decode_step(Hides::kLaterKeysAndPadding), step_inputs(Hides::kLaterKeysAndPadding, {2, 2, 3}),
                         opset);
    EXPECT_EQ(model.model().opset(), opset);
    EXPECT_EQ(model.model().opsets.size(), 1u);
    EXPECT_EQ(count_ops(model.model(), "Attention"), opset >= 23 ? 1u : 0u);
    model.expect_as_eager(steps(Hides::kLaterKeysAndPadding, kSizes), {1e-5, 1e-5});
  }
}

// What a model says of itself: small, the same at each export, and what made it.
TEST(OnnxMetadata, HoldsTheConfigAndNoPlaces) {
  const Exported model([](const Tensors& t) { return Tensors{at::relu(t[0])}; }, {at::randn({2, 3})}, kCpu);
  std::map<std::string, std::string> metadata(model.model().metadata.begin(), model.model().metadata.end());
  EXPECT_THAT(metadata["export_config"], HasSubstr("\"ort_fusions\":\"cpu\""));
  EXPECT_EQ(metadata["module_class"], "Test");
  EXPECT_FALSE(model.model().producer_version.empty());
  size_t bytes = 0;
  for (const auto& [key, value] : metadata) {
    bytes += key.size() + value.size();
    EXPECT_THAT(value, ::testing::Not(HasSubstr(fs::current_path().string())));
  }
  EXPECT_LT(bytes, 2048u);
  EXPECT_TRUE(model.model().graph.value_info.empty());
  const Exported again([](const Tensors& t) { return Tensors{at::relu(t[0])}; }, {at::randn({2, 3})}, kCpu);
  EXPECT_EQ(again.model().metadata, model.model().metadata);
}

// A mask that is an input may show later keys, which the operator never does.
TEST(OnnxOrtFusions, OtherMasksKeepTheStandardOperatorAndSaySo) {
  const Warnings warnings;
  const Exported model(decode_step(Hides::kGiven), step_inputs(Hides::kGiven, {2, 2, 3}), kCpu);
  const std::vector<std::string> texts = about_fusions(warnings);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_THAT(texts[0], HasSubstr("scaled_dot_product_attention"));
  EXPECT_THAT(texts[0], HasSubstr("not known to hide later keys"));
  EXPECT_EQ(count_ops(model.model(), "GroupQueryAttention"), 0u);
  EXPECT_EQ(count_ops(model.model(), "Attention"), 1u);
  model.expect_as_eager(steps(Hides::kGiven, kSizes));
}

// Where queries are counted from elsewhere than the cache's end, later keys are not those of the operator.
TEST(OnnxOrtFusions, AMaskOfShiftedPlacesIsNotTaken) {
  const Forward shifted = [](const Tensors& t) {
    fix_heads(t);
    const at::Tensor keys = at::cat({t[0], t[3]}, 2);
    const at::Tensor values = at::cat({t[1], t[4]}, 2);
    const auto places = [](const c10::SymInt& from, const c10::SymInt& to) {
      return at::arange(from, to, at::TensorOptions().dtype(at::kLong)).unsqueeze(0);
    };
    const c10::SymInt past = t[0].sym_size(2) + 1;
    const at::Tensor mask = at::le(places(0, keys.sym_size(2)).unsqueeze(1).unsqueeze(2),
                                   places(past, past + t[2].sym_size(2)).unsqueeze(1).unsqueeze(3));
    return Tensors{at::scaled_dot_product_attention(t[2], keys, values, mask, 0.0, false, 0.4, true), keys, values};
  };
  const Exported model(shifted, step_inputs(Hides::kLaterKeys, {2, 2, 3}), kCpu);
  EXPECT_EQ(count_ops(model.model(), "GroupQueryAttention"), 0u);
  model.expect_as_eager(steps(Hides::kLaterKeys, {{2, 2, 3}, {1, 4, 5}}));
}

Tensors halves(const Tensors& inputs) {
  Tensors result;
  for (const at::Tensor& tensor : inputs) {
    result.push_back(c10::isFloatingType(tensor.scalar_type()) ? tensor.to(at::kHalf) : tensor);
  }
  return result;
}

// Other providers' operators take lengths and no mask.
TEST(OnnxOrtFusions, PaddingIsForTheCpuOnly) {
  for (const char* provider : {"cuda", "webgpu", "dml"}) {
    const ExportSettings settings{.ort_fusions = provider};
    const Exported causal(decode_step(Hides::kLaterKeys), halves(step_inputs(Hides::kLaterKeys, {2, 2, 3})), settings);
    EXPECT_EQ(count_ops(causal.model(), "GroupQueryAttention"), 1u);
    const Warnings warnings;
    const Exported padded(decode_step(Hides::kLaterKeysAndPadding),
                          halves(step_inputs(Hides::kLaterKeysAndPadding, {2, 2, 3})), settings);
    EXPECT_EQ(count_ops(padded.model(), "GroupQueryAttention"), 0u);
    const std::vector<std::string> texts = about_fusions(warnings);
    ASSERT_EQ(texts.size(), 1u);
    EXPECT_THAT(texts[0], HasSubstr("takes no mask"));
  }
}

// Of what ONNX Runtime lists for its providers, CUDA alone has no operator in float32.
TEST(OnnxOrtFusions, CudaHasTheOperatorInFloat16Only) {
  for (const char* provider : {"cuda", "webgpu", "dml"}) {
    const bool is_cuda = std::string(provider) == "cuda";
    const Warnings warnings;
    const Exported model(decode_step(Hides::kLaterKeys), step_inputs(Hides::kLaterKeys, {2, 2, 3}),
                         ExportSettings{.ort_fusions = provider});
    EXPECT_EQ(count_ops(model.model(), "GroupQueryAttention"), is_cuda ? 0u : 1u);
    const std::vector<std::string> texts = about_fusions(warnings);
    ASSERT_EQ(texts.size(), is_cuda ? 1u : 0u);
    EXPECT_TRUE(!is_cuda || texts[0].find("float16 only") != std::string::npos) << texts[0];
  }
}

// ── SiLU ──

TEST(OnnxOrtFusions, SiluIsQuickGelu) {
  const Forward silu = [](const Tensors& t) { return Tensors{at::silu(t[0]), at::mul(t[0], at::sigmoid(t[1]))}; };
  const Exported model(silu, {at::randn({2, 3}), at::randn({2, 3})}, kCpu);
  EXPECT_EQ(count_ops(model.model(), "QuickGelu"), 1u);
  EXPECT_EQ(count_ops(model.model(), "Sigmoid"), 1u);
  // The kernel approximates exp.
  model.expect_as_eager({{at::randn({1, 1}), at::randn({1, 1})}, {at::randn({5, 40}) * 8, at::randn({5, 40})}},
                        {1e-5, 1e-5});
}

TEST(OnnxOrtFusions, ContradictionsAreRefused) {
  OnnxConfig config;
  config.ort_fusions = "cpu";
  config.optimize = false;
  EXPECT_THROW(config.validate(), Error);
  config.optimize = true;
  config.opset_version = 22;
  EXPECT_THAT(exporters::testing::error_of([&] { config.validate(); }), HasSubstr("opset 23"));
}

// ── Generation ──

class OnnxOrtFusionsOf : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, register_onnx_backend);
  }
};

// Given no word about it, when a decoder is exported with fusions, then one component generates the reference's tokens,
// also for a batch that is padded on the left and past windows.
TEST_P(OnnxOrtFusionsOf, OneComponentGivesTheReferencesTokens) {
  for (const fs::path& checkpoint : language_models(GetParam())) {
    const TemporaryFolder folder;
    OnnxConfig config;
    config.ort_fusions = "cpu";
    const ExportedModel exported = exported_for_generation(OnnxExporter(), config, checkpoint, folder);
    ASSERT_EQ(exported.components().size(), 1u);
    EXPECT_GT(
        OnnxExporter().describe_program(*exported.component("decode").program).ops["com.microsoft.GroupQueryAttention"],
        0);
    expect_reference_tokens(exported, checkpoint, {"greedy", "alone"});
  }
}

INSTANTIATE_TEST_SUITE_P(Some, OnnxOrtFusionsOf, ::testing::Values("llama", "mistral", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

// A decode step at the default opset: one operator for each layer's attention with its cache, two rotations, and
// nothing that copies the cache.
TEST(OnnxDecodeStep, ALlamaIsMadeOfAFewOperators) {
  [[maybe_unused]] static const bool registered = (register_onnx_backend(), true);
  const fs::path llama = exporters::testing::reference_folder("decoders") / "llama" / "LlamaForCausalLM_plain_0";
  const TemporaryFolder folder;
  OnnxConfig config;
  const ExportedModel exported = exported_for_generation(OnnxExporter(), config, llama, folder);
  ASSERT_EQ(exported.components().size(), 2u);
  auto ops = OnnxExporter().describe_program(*exported.component("decode").program).ops;
  EXPECT_EQ(ops["Attention"], 2);
  EXPECT_EQ(ops["RotaryEmbedding"], 4);
  EXPECT_EQ(ops["RMSNormalization"], 5);
}

}  // namespace
}  // namespace exporters::onnx
