// Models on fake tensors: every size stays symbolic, whatever the sample's sizes are.
#include "exporters/fake/dispatch_mode.h"
#include "exporters/fake/fake_tensor.h"
#include "exporters/fake/infer.h"
#include "exporters/models/masks.h"
#include "exporters/models/registry.h"
#include "exporters/symbolic/sym_node.h"
#include "tests/models/recorded.h"

#include <set>

namespace exporters::models {
namespace {

using testing::reference_models;

/// Infers every op and notes its name and the module that called it.
class Inference : public DispatchMode {
 public:
  explicit Inference(std::shared_ptr<ShapeEnv> env) : env_(std::move(env)) {}

  void handle(const c10::OperatorHandle& op, torch::jit::Stack& stack) override {
    calls.emplace_back(op.operator_name().name, current_place());
    infer(op, stack, env_);
  }

  std::vector<std::pair<std::string, Place>> calls;

 private:
  std::shared_ptr<ShapeEnv> env_;
};

struct Trace {
  std::shared_ptr<ShapeEnv> env = std::make_shared<ShapeEnv>();
  std::vector<std::pair<std::string, Place>> calls;
  ForwardArgs inputs;
  PyTree output;

  std::vector<Expr> sizes(const std::string& path) const { return meta_of(output.at(path).tensor()).sizes; }
  Expr input_size(const std::string& name, size_t axis) const { return meta_of(inputs.tensor(name)).sizes.at(axis); }
};

Trace trace(const std::string& name, SampleSize size, const ForwardArgs& flags = {}) {
  const auto model = load(reference_models() / "cases" / name);
  Trace trace;
  for (const auto& [input, value] : model->sample_inputs(size)) {
    TensorMeta meta;
    meta.dtype = value.tensor().scalar_type();
    for (int64_t axis = 0; axis < value.tensor().dim(); ++axis) {
      meta.sizes.push_back(trace.env->add_axis({input, axis}, value.tensor().size(axis), Dim::Auto()));
    }
    meta.strides = contiguous_strides(meta.sizes);
    trace.inputs.set(input, make_fake(meta, trace.env));
  }
  ForwardArgs args = trace.inputs;
  for (const auto& [flag, value] : flags) {
    args.set(flag, value);
  }
  Inference inference(trace.env);
  const DispatchMode::Scope scope(inference);
  trace.output = model->forward(args);
  trace.calls = std::move(inference.calls);
  return trace;
}

TEST(Tracing, EveryHeadKeepsBatchAndSequenceSymbolicAlsoAtSamplesOfOne) {
  for (const ModelEntry& entry : list()) {
    if (entry.model_type != "bert" || entry.architecture == "BertLMHeadModel") {  // which is a decoder
      continue;
    }
    for (const SampleSize size : {SampleSize{1, 8}, SampleSize{1, 1}, SampleSize{3, 5}, SampleSize{12, 12}}) {
      for (const bool recorded : {false, true}) {
        SCOPED_TRACE(fmt::format("{} [{}, {}] {}", entry.architecture, size.batch, size.sequence, recorded));
        const Trace traced =
            trace(std::string(entry.architecture) + "_relu_0", size,
                  {{"output_hidden_states", PyTree(recorded)}, {"output_attentions", PyTree(recorded)}});
        for (const Specialization& frozen : traced.env->specializations()) {
          ADD_FAILURE() << frozen.str();
        }
        EXPECT_EQ(traced.env->simplify(traced.input_size("input_ids", 0)).str(),
                  traced.env->simplify(traced.input_size("attention_mask", 0)).str());
      }
    }
  }
}

TEST(Tracing, OutputsHaveTheSizesOfTheInputs) {
  const Trace traced = trace("BertModel_gelu_0", {1, 8});
  const Expr batch = traced.env->simplify(traced.input_size("input_ids", 0));
  const Expr sequence = traced.env->simplify(traced.input_size("input_ids", 1));
  EXPECT_EQ(traced.sizes("last_hidden_state"), (std::vector<Expr>{batch, sequence, 24}));
  EXPECT_EQ(traced.sizes("pooler_output"), (std::vector<Expr>{batch, 24}));
  // What the position table allows.
  const auto ranges = traced.env->range_constraints();
  ASSERT_TRUE(ranges.contains(sequence.str()));
  EXPECT_EQ(ranges.at(sequence.str()).max, 16);
}

// Given a cache of symbolic length, padding or packed positions, at samples of size 1 too, then a causal mask is
// [batch, 1, queries, keys] without a guard that fixes a size.
TEST(Tracing, CausalMasksKeepTheirSizesSymbolic) {
  for (const int64_t sample : {1, 4}) {
    const auto env = std::make_shared<ShapeEnv>();
    const auto fake = [&](std::vector<Expr> sizes, c10::ScalarType dtype) {
      TensorMeta meta;
      meta.dtype = dtype;
      meta.sizes = std::move(sizes);
      meta.strides = contiguous_strides(meta.sizes);
      return make_fake(meta, env);
    };
    const Expr batch = env->add_axis({"embeds", 0}, sample, Dim::Auto());
    const Expr queries = env->add_axis({"embeds", 1}, sample, Dim::Auto());
    const Expr past = env->add_axis({"cache", 2}, 3, Dim::Auto());
    const at::Tensor embeds = fake({batch, queries, 8}, at::kFloat);
    const at::Tensor padding = fake({batch, past + queries}, at::kLong);
    const at::Tensor position_ids = fake({batch, queries}, at::kLong);

    Inference inference(env);
    const DispatchMode::Scope scope(inference);
    const auto sizes_of = [&](const CausalMask& causal) {
      std::string text;
      for (const Expr& size : meta_of(causal.mask).sizes) {
        text += env->simplify(size).str() + " ";
      }
      return text;
    };
    const std::string b = batch.str();
    const std::string q = queries.str();
    const std::string keys = (past + queries).str();
    const auto kind = AttentionKind::kSdpa;
    const CacheSpan span = CacheSpan::after(to_sym_int(past, env), embeds.sym_size(1));
    EXPECT_EQ(sizes_of(create_causal_mask(kind, embeds, padding, {.span = span})), b + " 1 " + q + " " + keys + " ");
    EXPECT_EQ(sizes_of(create_causal_mask(kind, embeds, {}, {.span = span})), "1 1 " + q + " " + keys + " ");
    EXPECT_EQ(sizes_of(create_causal_mask(kind, embeds, {}, {.position_ids = position_ids})),
              b + " 1 " + q + " " + q + " ");
    for (const Specialization& frozen : env->specializations()) {
      ADD_FAILURE() << frozen.str();
    }
  }
}

TEST(Tracing, CompositeOpsAreSeenWholeWithTheirModulePath) {
  const Trace traced = trace("BertModel_gelu_0", {2, 8});
  std::map<std::string, size_t> counts;
  std::set<std::string> attention_paths;
  for (const auto& [op, place] : traced.calls) {
    ++counts[op];
    if (op == "aten::scaled_dot_product_attention") {
      attention_paths.insert(place.module_path + " " + place.module_class);
    }
  }
  EXPECT_EQ(counts["aten::linear"], 2 * 6 + 1u);
  EXPECT_EQ(counts["aten::layer_norm"], 2 * 2 + 1u);
  EXPECT_EQ(counts["aten::gelu"], 2u);
  EXPECT_EQ(attention_paths, (std::set<std::string>{"encoder.layer.0.attention.self BertSelfAttention",
                                                    "encoder.layer.1.attention.self BertSelfAttention"}));
}

}  // namespace
}  // namespace exporters::models
