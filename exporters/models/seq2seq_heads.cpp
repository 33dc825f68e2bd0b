#include "exporters/models/decoder.h"
#include "exporters/models/operators.h"
#include "exporters/models/seq2seq.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/index.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <ATen/ops/split.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <c10/util/StringUtil.h>

namespace exporters::models {
namespace {

std::string class_of(const Seq2SeqFamily& family, std::string_view what) {
  return fmt::format("{}{}", family.prefix, what);
}

std::string output_class(std::string_view name) { return fmt::format("transformers.modeling_outputs.{}", name); }

KeyRules rules_of(const Seq2SeqFamily& family) { return family.key_rules != nullptr ? family.key_rules() : KeyRules(); }

// Heads without language model have no cache among their arguments.
std::vector<ArgumentSpec> without_cache(std::vector<ArgumentSpec> specs) {
  std::erase_if(specs, [](const ArgumentSpec& spec) { return spec.kind == ArgumentSpec::Kind::kCache; });
  return specs;
}

int64_t require_two_labels(const Seq2SeqTraits& traits, const ModelConfig& config) {
  if (traits.num_labels != 2) {
    throw Error(fmt::format("question answering has {} labels", traits.num_labels), config.where(),
                "It needs two: the start and the end of the answer");
  }
  return 2;
}

}  // namespace

// ── Bare model ──

Seq2SeqBase::Seq2SeqBase(Scope scope, const Seq2SeqFamily& family, std::string_view class_name,
                         const ModelConfig& config)
    : PreTrainedModel(std::move(scope), class_of(family, class_name), config), family_(family) {}

KeyRules Seq2SeqBase::key_rules() const { return rules_of(family_); }

Seq2SeqParts::Output Seq2SeqBase::run_parts(const ForwardArgs& args, const Flags& flags, bool shifts_inputs) const {
  Seq2SeqParts::Inputs inputs = parts().inputs(args, shifts_inputs);
  Seq2SeqParts::Output output;
  output.encoder = args.has("encoder_outputs") ? Seq2SeqParts::given_encoder_outputs(*args.find("encoder_outputs"))
                                               : parts().encoder()(inputs.encoder, flags);
  inputs.decoder.set("encoder_hidden_states", output.encoder.last_hidden_state);
  output.decoder = parts().decoder()(inputs.decoder, flags);
  return output;
}

PyTree Seq2SeqBase::output_of(std::string_view type, std::vector<std::pair<std::string, PyTree>> fields,
                              const Seq2SeqParts::Output& output) const {
  fields.insert(fields.end(), {{"cache", output.decoder.cache},
                               {"decoder_hidden_states", output.decoder.hidden_states},
                               {"decoder_attentions", output.decoder.attentions},
                               {"decoder_router_logits", output.decoder.router_logits},
                               {"cross_attentions", output.decoder.cross_attentions},
                               {"encoder_last_hidden_state", output.encoder.last_hidden_state},
                               {"encoder_hidden_states", output.encoder.hidden_states},
                               {"encoder_attentions", output.encoder.attentions},
                               {"encoder_router_logits", output.encoder.router_logits}});
  return PyTree::object(output_class(type), std::move(fields));
}

Seq2SeqModel::Seq2SeqModel(Scope scope, const Seq2SeqFamily& family, const ModelConfig& config)
    : Seq2SeqBase(std::move(scope), family, "Model", config), parts_(family, part_scopes(), config) {}

Seq2SeqParts::Output Seq2SeqModel::operator()(const ForwardArgs& args, const Flags& flags, bool shifts_inputs) const {
  const auto scope = enter();
  return run_parts(args, flags, shifts_inputs);
}

PyTree Seq2SeqModel::run(const ForwardArgs& args, const Flags& flags) const {
  const Seq2SeqParts::Output output = (*this)(args, flags, family().model_shifts_inputs);
  return output_of(family().model_output, {{"last_hidden_state", output.decoder.last_hidden_state}}, output);
}

// ── Heads with a decoder ──

Seq2SeqHead::Seq2SeqHead(const Seq2SeqFamily& family, std::string_view class_name, const ModelConfig& config,
                         bool is_flat)
    : Seq2SeqBase(Scope{}, family, class_name, config) {
  if (is_flat) {
    parts_.emplace(family, part_scopes(), config);
  } else {
    model_ = std::make_unique<Seq2SeqModel>(child(std::string(family.base)), family, config);
  }
}

std::string Seq2SeqHead::prefix() const { return model_ ? fmt::format("{}.", family().base) : std::string(); }

std::vector<TiedWeights> Seq2SeqHead::tied_weights() const { return parts().tied_embeddings(prefix()); }

Seq2SeqParts::Output Seq2SeqHead::run_model(const ForwardArgs& args, const Flags& flags, bool shifts_inputs) const {
  return model_ ? (*model_)(args, flags, shifts_inputs) : run_parts(args, flags, shifts_inputs);
}

Seq2SeqForConditionalGeneration::Seq2SeqForConditionalGeneration(const Seq2SeqFamily& family, const ModelConfig& config)
    : Seq2SeqHead(family, family.conditional_generation_class, config, family.is_flat),
      lm_head_(child(std::string(family.lm_head)), traits().hidden_size, traits().decoder_vocab_size, /*bias=*/false) {
  if (family.has_logits_bias) {
    const int64_t count = traits().decoder_vocab_size;
    stored_buffer("final_logits_bias", final_logits_bias_, {1, count}, [count] { return at::zeros({1, count}); });
  }
}

std::vector<TiedWeights> Seq2SeqForConditionalGeneration::tied_weights() const {
  if (!traits().tie_word_embeddings) {
    return {};
  }
  const std::string source = traits().has_shared_embedding ? "shared.weight" : "decoder.embed_tokens.weight";
  std::vector<TiedWeights> tied = {{fmt::format("{}.weight", family().lm_head), prefix() + source}};
  const std::vector<TiedWeights> embeddings = Seq2SeqHead::tied_weights();
  tied.insert(tied.end(), embeddings.begin(), embeddings.end());
  return tied;
}

PyTree Seq2SeqForConditionalGeneration::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const Seq2SeqParts::Output output = run_model(args, flags, family().model_shifts_inputs);
  at::Tensor hidden = output.decoder.last_hidden_state;
  if (traits().output_scale != 1.0) {
    hidden = hidden * traits().output_scale;
  }
  at::Tensor logits = lm_head_(hidden);
  if (family().has_logits_bias) {
    logits = logits + final_logits_bias_;
  }
  return output_of(family().lm_output, {{"logits", logits}}, output);
}

Seq2SeqClassificationHead::Seq2SeqClassificationHead(Scope scope, std::string class_name, int64_t hidden_size,
                                                     int64_t num_labels)
    : Module(std::move(scope), std::move(class_name)),
      dense_(child("dense"), hidden_size, hidden_size),
      out_proj_(child("out_proj"), hidden_size, num_labels) {}

at::Tensor Seq2SeqClassificationHead::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  return out_proj_(at::tanh(dense_(hidden)));
}

Seq2SeqForSequenceClassification::Seq2SeqForSequenceClassification(const Seq2SeqFamily& family,
                                                                   const ModelConfig& config)
    : Seq2SeqHead(family, "ForSequenceClassification", config, /*is_flat=*/false),
      classification_head_(child("classification_head"), class_of(family, "ClassificationHead"), traits().hidden_size,
                           traits().num_labels) {
  if (!traits().eos_token_id) {
    throw Error("config field \"eos_token_id\" is not set: its last occurrence is what is classified", config.where());
  }
  eos_token_id_ = *traits().eos_token_id;
}

std::vector<ArgumentSpec> Seq2SeqForSequenceClassification::arguments() const {
  return without_cache(Seq2SeqHead::arguments());
}

// One end-of-sequence token in each row, at its end.
ForwardArgs Seq2SeqForSequenceClassification::sample_inputs(const SampleSize& size) const {
  ensure(size.past == 0, "{} has no cache for a sample of {} earlier tokens", class_name(), size.past);
  ForwardArgs args = Seq2SeqHead::sample_inputs({size.batch, size.sequence, 0, size.sequence});
  for (const char* name : {"input_ids", "decoder_input_ids"}) {
    const at::Tensor ids = args.tensor(name);
    ids.masked_fill_(at::eq(ids, eos_token_id_), eos_token_id_ == 0 ? 1 : eos_token_id_ - 1);
    ids.select(1, -1).fill_(eos_token_id_);
  }
  return args;
}

void Seq2SeqForSequenceClassification::check_values(const ForwardArgs& args) const {
  const at::Tensor input_ids = args.tensor("input_ids");
  if (!input_ids.defined() || input_ids.numel() == 0) {
    return;
  }
  const at::Tensor counts = at::sum(at::eq(input_ids, eos_token_id_), {1});
  const auto least = at::min(counts).item<int64_t>();
  const auto most = at::max(counts).item<int64_t>();
  ensure(least == most && least > 0,
         "input_ids have from {} to {} end-of-sequence tokens ({}) in a row: every row needs as many, and at least one",
         least, most, eos_token_id_);
}

PyTree Seq2SeqForSequenceClassification::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const at::Tensor input_ids = args.tensor("input_ids");
  ensure(input_ids.defined(), "{} needs input_ids: it classifies the state at their end-of-sequence token",
         class_name());
  const Seq2SeqParts::Output output = run_model(args, flags, family().shift_right != nullptr);
  const at::Tensor hidden = output.decoder.last_hidden_state;
  require(hidden.sym_size(1).sym_eq(input_ids.sym_size(1)), [&] {
    return c10::str("the decoder has ", hidden.sym_size(1), " positions, input_ids have ", input_ids.sym_size(1),
                    ": to be classified, they go together");
  });
  const auto int32 = at::TensorOptions().dtype(c10::ScalarType::Int);
  const at::Tensor steps = at::arange(1, input_ids.sym_size(1) + 1, int32);
  const at::Tensor last = at::argmax(steps * at::eq(input_ids, eos_token_id_).to(c10::ScalarType::Int), -1);
  const at::Tensor rows = at::arange(hidden.sym_size(0), at::TensorOptions().dtype(c10::ScalarType::Long));
  return output_of("Seq2SeqSequenceClassifierOutput",
                   {{"logits", classification_head_(at::index(hidden, {rows, last}))}}, output);
}

Seq2SeqForQuestionAnswering::Seq2SeqForQuestionAnswering(const Seq2SeqFamily& family, const ModelConfig& config)
    : Seq2SeqHead(family, "ForQuestionAnswering", config, family.is_flat),
      // A family whose head is not flat sets the number of labels itself.
      qa_outputs_(child("qa_outputs"), traits().hidden_size,
                  family.is_flat ? require_two_labels(traits(), config) : 2) {}

std::vector<ArgumentSpec> Seq2SeqForQuestionAnswering::arguments() const {
  return without_cache(Seq2SeqHead::arguments());
}

PyTree Seq2SeqForQuestionAnswering::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const Seq2SeqParts::Output output = run_model(args, flags, family().shift_right != nullptr);
  const std::vector<at::Tensor> ends = at::split(qa_outputs_(output.decoder.last_hidden_state), 1, -1);
  return output_of(
      "Seq2SeqQuestionAnsweringModelOutput",
      {{"start_logits", ends[0].squeeze(-1).contiguous()}, {"end_logits", ends[1].squeeze(-1).contiguous()}}, output);
}

// ── The decoder alone ──

Seq2SeqForCausalLM::Seq2SeqForCausalLM(const Seq2SeqFamily& family, const ModelConfig& config)
    : PreTrainedModel(Scope{}, class_of(family, "ForCausalLM"), config),
      family_(family),
      traits_(family.traits(config)),
      decoder_(family.make_decoder(child(fmt::format("{}.decoder", family.base)), config, /*with_encoder=*/false)),
      lm_head_(child(std::string(family.lm_head)), traits_.hidden_size, traits_.decoder_vocab_size, /*bias=*/false) {}

std::vector<ArgumentSpec> Seq2SeqForCausalLM::arguments() const {
  std::vector<ArgumentSpec> specs = decoder_->arguments();
  if (family_.decoder_takes_outputs) {
    std::erase_if(specs, [](const ArgumentSpec& spec) { return spec.name == "encoder_hidden_states"; });
    specs.push_back({"encoder_outputs", ArgumentSpec::Kind::kOutputs});
  } else {
    specs.push_back({"logits_to_keep", ArgumentSpec::Kind::kCount});
  }
  specs.push_back({"labels", ArgumentSpec::Kind::kRefused, {}, 0, "losses are not computed"});
  return specs;
}

ForwardArgs Seq2SeqForCausalLM::sample_inputs(const SampleSize& size) const { return decoder_->sample_inputs(size); }

std::vector<TiedWeights> Seq2SeqForCausalLM::tied_weights() const {
  if (!traits_.tie_word_embeddings) {
    return {};
  }
  return {{fmt::format("{}.weight", family_.lm_head), fmt::format("{}.decoder.embed_tokens.weight", family_.base)}};
}

KeyRules Seq2SeqForCausalLM::key_rules() const { return rules_of(family_); }

PyTree Seq2SeqForCausalLM::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  ForwardArgs taken = args;
  if (args.has("encoder_outputs")) {
    const PyTree& outputs = *args.find("encoder_outputs");
    taken.set("encoder_hidden_states", Seq2SeqParts::given_encoder_outputs(outputs).last_hidden_state);
  }
  const TransformerStack::Output output = (*decoder_)(taken, flags);
  const at::Tensor hidden = kept_positions(output.last_hidden_state, args.find("logits_to_keep"));
  return PyTree::object(output_class("CausalLMOutputWithCrossAttentions"),
                        {{"logits", lm_head_(hidden)},
                         {"cache", output.cache},
                         {"hidden_states", output.hidden_states},
                         {"attentions", output.attentions},
                         {"cross_attentions", output.cross_attentions}});
}

// ── The encoder alone ──

Seq2SeqEncoderModel::Seq2SeqEncoderModel(Scope scope, const Seq2SeqFamily& family, const ModelConfig& config)
    : PreTrainedModel(std::move(scope), class_of(family, "EncoderModel"), config), family_(family) {
  const Seq2SeqTraits traits = family.traits(config);
  shared_ = std::make_unique<Embedding>(child("shared"), traits.vocab_size, traits.hidden_size);
  encoder_ = family.make_encoder(child("encoder"), config);
}

std::vector<TiedWeights> Seq2SeqEncoderModel::tied_weights() const {
  return {{"encoder.embed_tokens.weight", "shared.weight"}};
}

KeyRules Seq2SeqEncoderModel::key_rules() const {
  KeyRules rules = rules_of(family_);
  rules.unused.emplace_back("decoder.");
  return rules;
}

TransformerStack::Output Seq2SeqEncoderModel::operator()(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  return (*encoder_)(args, flags);
}

PyTree Seq2SeqEncoderModel::run(const ForwardArgs& args, const Flags& flags) const {
  return encoder_->to_tree((*this)(args, flags));
}

Seq2SeqForTokenClassification::Seq2SeqForTokenClassification(const Seq2SeqFamily& family, const ModelConfig& config)
    : PreTrainedModel(Scope{}, class_of(family, "ForTokenClassification"), config),
      transformer_(child(std::string(family.base)), family, config),
      classifier_(child("classifier"), family.traits(config).hidden_size, config.num_labels()) {}

std::vector<TiedWeights> Seq2SeqForTokenClassification::tied_weights() const {
  const std::string prefix = fmt::format("{}.", base_model_prefix());
  return {{prefix + "encoder.embed_tokens.weight", prefix + "shared.weight"}};
}

PyTree Seq2SeqForTokenClassification::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const TransformerStack::Output output = transformer_(args, flags);
  return PyTree::object(output_class("TokenClassifierOutput"), {{"logits", classifier_(output.last_hidden_state)},
                                                                {"hidden_states", output.hidden_states},
                                                                {"attentions", output.attentions}});
}

}  // namespace exporters::models
