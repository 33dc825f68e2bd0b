#include "exporters/models/encoder.h"

#include "exporters/models/operators.h"
#include "exporters/models/samples.h"
#include "exporters/support/error.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

namespace exporters::models {

EncoderInputs::EncoderInputs(const ForwardArgs& args)
    : input_ids(args.tensor("input_ids")),
      attention_mask(args.tensor("attention_mask")),
      token_type_ids(args.tensor("token_type_ids")),
      position_ids(args.tensor("position_ids")),
      inputs_embeds(args.tensor("inputs_embeds")) {
  if (input_ids.defined() == inputs_embeds.defined()) {
    throw Error(input_ids.defined() ? "both input_ids and inputs_embeds are given"
                                    : "neither input_ids nor inputs_embeds is given",
                {}, "Give exactly one of them");
  }
}

EncoderStates run_layers(size_t count, at::Tensor hidden,
                         const std::function<AttentionResult(size_t, const at::Tensor&)>& layer) {
  EncoderStates states;
  for (size_t i = 0; i < count; ++i) {
    states.hidden_states.push_back(hidden);
    AttentionResult result = layer(i, hidden);
    hidden = std::move(result.output);
    if (result.probabilities.defined()) {
      states.attentions.push_back(std::move(result.probabilities));
    }
  }
  if (count > 0) {
    states.hidden_states.push_back(hidden);
  }
  states.last_hidden_state = std::move(hidden);
  return states;
}

EncoderModel::EncoderModel(Scope scope, const EncoderFamily& family, const ModelConfig& config, EncoderTraits traits)
    : PreTrainedModel(std::move(scope), fmt::format("{}Model", family.prefix), config),
      family_(family),
      traits_(std::move(traits)) {}

void EncoderModel::declare_pooler(int64_t hidden_size) {
  pooler_.emplace(child(std::string(family_.pooler)), hidden_size, hidden_size);
}

KeyRules EncoderModel::key_rules() const {
  KeyRules rules;
  if (!family_.former_buffer.empty()) {
    rules.former_buffers.emplace_back(family_.former_buffer);
  }
  return rules;
}

std::vector<ArgumentSpec> EncoderModel::arguments() const {
  using Kind = ArgumentSpec::Kind;
  std::vector<ArgumentSpec> specs = {
      {"input_ids", Kind::kIndices, {2}, traits_.vocab_size, "vocab_size"},
      {"attention_mask", Kind::kMask, traits_.mask_ranks},
      {"token_type_ids", Kind::kIndices, {2}, traits_.type_vocab_size, "type_vocab_size"},
      {"position_ids", Kind::kIndices, {2}, traits_.position_limit, "max_position_embeddings"},
      {"inputs_embeds", Kind::kFloats, {3}},
      {"output_hidden_states", Kind::kFlag},
      {"output_attentions", Kind::kFlag},
      {"return_dict", Kind::kFlag},
      {"use_cache", Kind::kFlag},  // an encoder has no cache: the reference accepts and ignores it too
      {"labels", Kind::kRefused, {}, 0, "losses are not computed"},
  };
  if (family_.can_be_decoder) {
    for (const char* name : {"encoder_hidden_states", "encoder_attention_mask", "cache", "past_key_values"}) {
      specs.push_back({name, Kind::kRefused, {}, 0, "it needs the model as a decoder"});
    }
  }
  return specs;
}

ForwardArgs EncoderModel::sample_inputs(const SampleSize& size) const {
  ensure(size.past == 0, "{} has no cache for a sample of {} earlier tokens", class_name(), size.past);
  ensure(size.batch >= 1 && size.sequence >= 1, "a sample has at least one row and one token, not [{}, {}]", size.batch,
         size.sequence);
  if (traits_.max_sequence) {
    ensure(size.sequence <= *traits_.max_sequence, "a sample of {} tokens is longer than the model takes, {}",
           size.sequence, *traits_.max_sequence);
  }
  const at::Tensor ids = sample_ids(size.batch, size.sequence, traits_.vocab_size, traits_.pad_token_id);
  ForwardArgs args{{"input_ids", ids}, {"attention_mask", at::ones_like(ids)}};
  if (traits_.samples_token_types) {
    args.set("token_type_ids", at::zeros_like(ids));
  }
  return args;
}

AxisNames EncoderModel::axis_names(bool) const {
  const AxisName batch{"batch"};
  const AxisName sequence{"sequence", traits_.max_sequence.value_or(Range::kMax)};
  AxisNames names;
  for (const char* input : {"input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds"}) {
    names[input] = {{0, batch}, {1, sequence}};
  }
  names["inputs_embeds"][2] = {};
  return names;
}

EncoderModel::Output EncoderModel::operator()(const EncoderInputs& inputs, const Flags& flags) const {
  const auto scope = enter();
  const AttentionKind kind = traits_.needs_eager_attention ? AttentionKind::kEager : flags.attention;
  EncoderStates states = encode(inputs, kind);
  Output output;
  if (pooler_) {
    output.pooler_output = at::tanh((*pooler_)(states.last_hidden_state.select(1, 0)));
  }
  output.last_hidden_state = std::move(states.last_hidden_state);
  output.hidden_states = flags.hidden_states ? tuple_of(std::move(states.hidden_states)) : PyTree();
  output.attentions = flags.attentions ? tuple_of(std::move(states.attentions)) : PyTree();
  return output;
}

PyTree EncoderModel::run(const ForwardArgs& args, const Flags& flags) const {
  Output output = (*this)(EncoderInputs(args), flags);
  return PyTree::object(
      fmt::format("transformers.modeling_outputs.{}", family_.base_output),
      {{"last_hidden_state", output.last_hidden_state},
       {"pooler_output", output.pooler_output.defined() ? PyTree(output.pooler_output) : PyTree()},
       {"hidden_states", output.hidden_states},
       {"attentions", output.attentions},
       {"cross_attentions", flags.attentions && family_.can_be_decoder ? PyTree::tuple({}) : PyTree()}});
}

}  // namespace exporters::models
