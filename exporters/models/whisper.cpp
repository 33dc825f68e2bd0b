// Whisper: Robust Speech Recognition via Large-Scale Weak Supervision (Radford et al., 2022).
#include "exporters/models/whisper.h"

#include "exporters/models/bart_like.h"
#include "exporters/models/layers/convolution.h"
#include "exporters/models/operators.h"
#include "exporters/models/samples.h"
#include "exporters/models/seq2seq_families.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <c10/util/StringUtil.h>

namespace exporters::models {
namespace {

// Frames of the spectrogram to each position: the stride of the second convolution.
constexpr int64_t kFramesPerPosition = 2;

BartLikeSpec whisper_spec(const ModelConfig& config) {
  BartLikeDefaults defaults;
  defaults.vocab_size = 51865;
  defaults.d_model = 384;
  defaults.side = {.layers = 4, .heads = 6, .ffn_dim = 1536};
  defaults.max_positions = 448;
  defaults.max_positions_field = "max_target_positions";
  defaults.pad_token_id = 50256;
  BartLikeSpec spec = read_bart_like("Whisper", config, defaults);
  spec.embed_scale = 1.0;  // the reference reads scale_embedding and does not use it
  spec.norm_before = true;
  spec.final_norm = true;
  spec.positions = BartLikePositions::kLearnedFirst;
  spec.positions_class = "PositionalEmbedding";
  spec.encoder_range = Float16Range::kLimited;
  spec.key_bias = false;
  spec.scales_query = true;
  return spec;
}

ConvolutionOptions convolution(int64_t in_channels, int64_t out_channels, int64_t stride) {
  return {.in_channels = in_channels, .out_channels = out_channels, .kernel = {3}, .stride = {stride}, .padding = {1}};
}

/// Takes input_features, a log-mel spectrogram of a fixed length: [batch, num_mel_bins, 2 * max_source_positions].
class WhisperEncoder : public EncoderStack {
 public:
  WhisperEncoder(Scope scope, const ModelConfig& config, const BartLikeSpec& spec)
      : EncoderStack(std::move(scope), config,
                     {.class_name = "WhisperEncoder",
                      .output_class = "BaseModelOutput",
                      .num_layers = static_cast<size_t>(spec.encoder.layers),
                      .hidden_size = spec.d_model,
                      .max_positions = {},
                      .pad_token_id = {}}),
        num_mel_bins_(config.size("num_mel_bins", 80)),
        max_source_positions_(config.size("max_source_positions", 1500)),
        conv1_(child("conv1"), convolution(num_mel_bins_, spec.d_model, 1)),
        conv2_(child("conv2"), convolution(spec.d_model, spec.d_model, kFramesPerPosition)),
        embed_positions_(child("embed_positions"), max_source_positions_, spec.d_model),
        layers_([this](std::string name) { return child(std::move(name)); }, spec, /*is_decoder=*/false) {}

  // The reference takes an attention_mask too, and does not read it: silence is no padding.
  std::vector<ArgumentSpec> arguments() const override {
    std::vector<ArgumentSpec> specs = {{"input_features", ArgumentSpec::Kind::kFloats, {3}},
                                       {"attention_mask", ArgumentSpec::Kind::kMask, {2}}};
    const std::vector<ArgumentSpec> flags = flag_arguments();
    specs.insert(specs.end(), flags.begin(), flags.end());
    return specs;
  }

  ForwardArgs sample_inputs(const SampleSize& size) const override {
    ensure(size.batch >= 1, "a sample has at least one row, not {}", size.batch);
    return {{"input_features",
             sample_values({size.batch, num_mel_bins_, kFramesPerPosition * max_source_positions_}, /*seed=*/0)
                 .to(parameter_dtype())}};
  }

  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool) const override {
    return {{"input_features", {{0, {"batch"}}, {1, {}}, {2, {}}}}, {"attention_mask", {{0, {"batch"}}}}};
  }

  int64_t output_length(const SampleSize&) const override { return max_source_positions_; }

 protected:
  at::Tensor embed(const at::Tensor&) const override { fail("{} takes input_features, no ids", class_name()); }

  at::Tensor embeddings_of(const ForwardArgs& args) const override {
    const at::Tensor features = args.tensor("input_features");
    ensure(features.defined(), "{} needs input_features", class_name());
    const int64_t length = kFramesPerPosition * max_source_positions_;
    require(features.sym_size(2).sym_eq(length), [&] {
      return c10::str("input_features are ", features.sym_sizes(), ", their last axis has ", length,
                      " frames: pad or cut the spectrogram");
    });
    return at::gelu(conv2_(at::gelu(conv1_(features)))).permute({0, 2, 1});
  }

  at::Tensor begin(const at::Tensor& embeddings, const ForwardArgs&, Pass&) const override {
    const auto int64 = at::TensorOptions().dtype(c10::ScalarType::Long);
    return layers_.begin(embeddings + embed_positions_(at::arange(max_source_positions_, int64)));
  }

  LayerOutput run_layer(size_t index, const at::Tensor& hidden, const Pass& pass) const override {
    BartLikeLayer::Result result = layers_[index](hidden, {}, {}, {}, pass.kind, {});
    return {std::move(result.hidden), std::move(result.probabilities), {}, {}};
  }

  at::Tensor finish(const at::Tensor& hidden) const override { return layers_.finish(hidden); }

 private:
  int64_t num_mel_bins_;
  int64_t max_source_positions_;
  Convolution conv1_;
  Convolution conv2_;
  Embedding embed_positions_;
  BartLikeLayers layers_;
};

class WhisperDecoder : public BartLikeDecoder {
 public:
  using BartLikeDecoder::BartLikeDecoder;
  bool masks_encoder() const override { return false; }
  bool takes_positions() const override { return true; }
};

}  // namespace

Seq2SeqTraits whisper_traits(const ModelConfig& config) {
  Seq2SeqTraits traits =
      bart_like_traits(whisper_spec(config), config, {.decoder_start_token_id = 50257, .eos_token_id = 50256});
  traits.has_shared_embedding = false;
  return traits;
}

std::unique_ptr<EncoderStack> make_whisper_encoder(Scope scope, const ModelConfig& config) {
  return std::make_unique<WhisperEncoder>(std::move(scope), config, whisper_spec(config));
}

std::unique_ptr<DecoderStack> make_whisper_decoder(Scope scope, const ModelConfig& config, bool with_encoder) {
  BartLikeSpec spec = whisper_spec(config);
  DecoderStack::CacheTraits cache = bart_like_cache(spec, with_encoder);
  cache.new_layers = static_cast<size_t>(spec.decoder.layers);
  cache.needs_use_cache = true;
  return std::make_unique<WhisperDecoder>(std::move(scope), config, std::move(spec), cache);
}

// ── Audio classification ──

WhisperForAudioClassification::WhisperForAudioClassification(const ModelConfig& config)
    : PreTrainedModel(Scope{}, "WhisperForAudioClassification", config),
      encoder_(make_whisper_encoder(child("encoder"), config)),
      projector_(child("projector"), config.size("d_model", config.size("hidden_size", 384)),
                 config.size("classifier_proj_size", 256)),
      classifier_(child("classifier"), config.size("classifier_proj_size", 256), config.num_labels()),
      weighs_layers_(config.flag("use_weighted_layer_sum", false)) {
  if (weighs_layers_) {
    const int64_t layers = whisper_spec(config).encoder.layers + 1;
    parameter("layer_weights", layer_weights_, {layers});
  }
}

std::vector<ArgumentSpec> WhisperForAudioClassification::arguments() const {
  std::vector<ArgumentSpec> specs = encoder_->arguments();
  specs.push_back({"encoder_outputs", ArgumentSpec::Kind::kOutputs});
  specs.push_back({"labels", ArgumentSpec::Kind::kRefused, {}, 0, "losses are not computed"});
  return specs;
}

KeyRules WhisperForAudioClassification::key_rules() const {
  KeyRules rules;
  rules.unused = {"model.decoder.", "decoder.", "proj_out."};
  return rules;
}

PyTree WhisperForAudioClassification::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  Flags recorded = flags;
  recorded.hidden_states = flags.hidden_states || weighs_layers_;
  const TransformerStack::Output output = args.has("encoder_outputs")
                                              ? Seq2SeqParts::given_encoder_outputs(*args.find("encoder_outputs"))
                                              : (*encoder_)(args, recorded);
  at::Tensor hidden = output.last_hidden_state;
  if (weighs_layers_) {
    std::vector<at::Tensor> states;
    for (const PyTree& state : output.hidden_states.children()) {
      states.push_back(state.tensor());
    }
    ensure(!states.empty(), "encoder_outputs have no hidden_states, which {} weighs", class_name());
    const at::Tensor weights = at::softmax(layer_weights_, -1).reshape({-1, 1, 1});
    hidden = at::sum(at::stack(states, 1) * weights, {1});
  }
  return PyTree::object("transformers.modeling_outputs.SequenceClassifierOutput",
                        {{"logits", classifier_(at::mean(projector_(hidden), {1}))},
                         {"hidden_states", output.hidden_states},
                         {"attentions", output.attentions}});
}

}  // namespace exporters::models
