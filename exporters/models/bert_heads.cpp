#include "exporters/models/bert.h"

#include "exporters/support/error.h"

#include <ATen/ops/split.h>
#include <c10/util/StringUtil.h>

namespace exporters::models {
namespace {

constexpr int64_t kSampleChoices = 2;

PyTree with_recorded(std::string_view type, std::vector<std::pair<std::string, PyTree>> fields,
                     const BertModel::Output& output) {
  fields.emplace_back("hidden_states", output.hidden_states);
  fields.emplace_back("attentions", output.attentions);
  return PyTree::object(std::string(type), std::move(fields));
}

// A product of two sizes does not say that the factors are equal, so that is said before choices are joined. A plain 1
// broadcasts.
void require_leading_sizes(const at::Tensor& input, const c10::SymInt& batch, const c10::SymInt& choices) {
  const auto message = [&] {
    return c10::str("an input is ", input.sym_sizes(), ", the others make its first axes [", batch, ", ", choices,
                    "] (batch, choices)");
  };
  for (const auto& [axis, expected] : {std::pair(0, batch), std::pair(1, choices)}) {
    const c10::SymInt size = input.sym_size(axis);
    if (size.maybe_as_int() != 1) {
      require(size.sym_eq(expected), message);
    }
  }
}

// [batch, choices, …] → [batch * choices, …]
at::Tensor join_choices(const at::Tensor& input, const c10::SymInt& batch, const c10::SymInt& choices) {
  if (!input.defined()) {
    return input;
  }
  require_leading_sizes(input, batch, choices);
  return input.flatten(0, 1);
}

}  // namespace

BertPredictionHeadTransform::BertPredictionHeadTransform(Scope scope, const BertConfig& config)
    : Module(std::move(scope), "BertPredictionHeadTransform"),
      dense_(child("dense"), config.hidden_size, config.hidden_size),
      activation_(config.hidden_act),
      layer_norm_(child("LayerNorm"), config.hidden_size, config.layer_norm_eps) {}

at::Tensor BertPredictionHeadTransform::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  return layer_norm_(activation_(dense_(hidden)));
}

BertLMPredictionHead::BertLMPredictionHead(Scope scope, const BertConfig& config)
    : Module(std::move(scope), "BertLMPredictionHead"),
      transform_(child("transform"), config),
      decoder_(child("decoder"), config.hidden_size, config.vocab_size) {
  parameter("bias", bias_, {config.vocab_size});
}

at::Tensor BertLMPredictionHead::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  return decoder_(transform_(hidden));
}

BertOnlyMLMHead::BertOnlyMLMHead(Scope scope, const BertConfig& config)
    : Module(std::move(scope), "BertOnlyMLMHead"), predictions_(child("predictions"), config) {}

at::Tensor BertOnlyMLMHead::operator()(const at::Tensor& sequence_output) const {
  const auto scope = enter();
  return predictions_(sequence_output);
}

BertOnlyNSPHead::BertOnlyNSPHead(Scope scope, const BertConfig& config)
    : Module(std::move(scope), "BertOnlyNSPHead"),
      seq_relationship_(child("seq_relationship"), config.hidden_size, 2) {}

at::Tensor BertOnlyNSPHead::operator()(const at::Tensor& pooled_output) const {
  const auto scope = enter();
  return seq_relationship_(pooled_output);
}

BertPreTrainingHeads::BertPreTrainingHeads(Scope scope, const BertConfig& config)
    : Module(std::move(scope), "BertPreTrainingHeads"),
      predictions_(child("predictions"), config),
      seq_relationship_(child("seq_relationship"), config.hidden_size, 2) {}

std::pair<at::Tensor, at::Tensor> BertPreTrainingHeads::operator()(const at::Tensor& sequence_output,
                                                                   const at::Tensor& pooled_output) const {
  const auto scope = enter();
  return {predictions_(sequence_output), seq_relationship_(pooled_output)};
}

BertForPreTraining::BertForPreTraining(const ModelConfig& config)
    : BertPreTrainedModel(Scope{}, "BertForPreTraining", config),
      bert_(child("bert"), config, /*add_pooling_layer=*/true),
      cls_(child("cls"), bert_config()) {}

PyTree BertForPreTraining::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const BertModel::Output output = bert_(BertInputs(args), flags);
  const auto [words, order] = cls_(output.last_hidden_state, output.pooler_output);
  return with_recorded("transformers.models.bert.modeling_bert.BertForPreTrainingOutput",
                       {{"prediction_logits", words}, {"seq_relationship_logits", order}}, output);
}

BertForMaskedLM::BertForMaskedLM(const ModelConfig& config)
    : BertPreTrainedModel(Scope{}, "BertForMaskedLM", config),
      bert_(child("bert"), config, /*add_pooling_layer=*/false),
      cls_(child("cls"), bert_config()) {}

PyTree BertForMaskedLM::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const BertModel::Output output = bert_(BertInputs(args), flags);
  return with_recorded("transformers.modeling_outputs.MaskedLMOutput", {{"logits", cls_(output.last_hidden_state)}},
                       output);
}

BertForNextSentencePrediction::BertForNextSentencePrediction(const ModelConfig& config)
    : BertPreTrainedModel(Scope{}, "BertForNextSentencePrediction", config),
      bert_(child("bert"), config, /*add_pooling_layer=*/true),
      cls_(child("cls"), bert_config()) {}

PyTree BertForNextSentencePrediction::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const BertModel::Output output = bert_(BertInputs(args), flags);
  return with_recorded("transformers.modeling_outputs.NextSentencePredictorOutput",
                       {{"logits", cls_(output.pooler_output)}}, output);
}

BertForSequenceClassification::BertForSequenceClassification(const ModelConfig& config)
    : BertPreTrainedModel(Scope{}, "BertForSequenceClassification", config),
      bert_(child("bert"), config, /*add_pooling_layer=*/true),
      classifier_(child("classifier"), bert_config().hidden_size, config.num_labels()) {}

PyTree BertForSequenceClassification::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const BertModel::Output output = bert_(BertInputs(args), flags);
  return with_recorded("transformers.modeling_outputs.SequenceClassifierOutput",
                       {{"logits", classifier_(output.pooler_output)}}, output);
}

BertForMultipleChoice::BertForMultipleChoice(const ModelConfig& config)
    : BertPreTrainedModel(Scope{}, "BertForMultipleChoice", config),
      bert_(child("bert"), config, /*add_pooling_layer=*/true),
      classifier_(child("classifier"), bert_config().hidden_size, 1) {}

std::vector<ArgumentSpec> BertForMultipleChoice::arguments() const {
  std::vector<ArgumentSpec> specs = BertPreTrainedModel::arguments();
  for (ArgumentSpec& spec : specs) {
    if (!spec.ranks.empty()) {
      spec.ranks = {spec.ranks.front() + 1};
    }
  }
  return specs;
}

ForwardArgs BertForMultipleChoice::sample_inputs(const SampleSize& size) const {
  ForwardArgs args;
  for (const auto& [name, value] : BertPreTrainedModel::sample_inputs({size.batch * kSampleChoices, size.sequence})) {
    args.set(name, value.tensor().unflatten(0, {size.batch, kSampleChoices}));
  }
  return args;
}

AxisNames BertForMultipleChoice::axis_names(bool with_cache) const {
  AxisNames names = BertPreTrainedModel::axis_names(with_cache);
  for (auto& [input, axes] : names) {
    axes = {{0, axes[0]}, {1, {"choices"}}, {2, axes[1]}};
  }
  return names;
}

PyTree BertForMultipleChoice::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  BertInputs inputs(args);
  const at::Tensor& main_input = inputs.input_ids.defined() ? inputs.input_ids : inputs.inputs_embeds;
  const c10::SymInt batch = main_input.sym_size(0);
  const c10::SymInt choices = main_input.sym_size(1);
  for (at::Tensor* input : {&inputs.input_ids, &inputs.attention_mask, &inputs.token_type_ids, &inputs.position_ids,
                            &inputs.inputs_embeds}) {
    *input = join_choices(*input, batch, choices);
  }
  const BertModel::Output output = bert_(inputs, flags);
  return with_recorded("transformers.modeling_outputs.MultipleChoiceModelOutput",
                       {{"logits", classifier_(output.pooler_output).view_symint({-1, choices})}}, output);
}

BertForTokenClassification::BertForTokenClassification(const ModelConfig& config)
    : BertPreTrainedModel(Scope{}, "BertForTokenClassification", config),
      bert_(child("bert"), config, /*add_pooling_layer=*/false),
      classifier_(child("classifier"), bert_config().hidden_size, config.num_labels()) {}

PyTree BertForTokenClassification::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const BertModel::Output output = bert_(BertInputs(args), flags);
  return with_recorded("transformers.modeling_outputs.TokenClassifierOutput",
                       {{"logits", classifier_(output.last_hidden_state)}}, output);
}

BertForQuestionAnswering::BertForQuestionAnswering(const ModelConfig& config)
    : BertPreTrainedModel(Scope{}, "BertForQuestionAnswering", config),
      bert_(child("bert"), config, /*add_pooling_layer=*/false),
      qa_outputs_(child("qa_outputs"), bert_config().hidden_size, config.num_labels()) {
  if (config.num_labels() != 2) {
    throw Error(fmt::format("question answering has {} labels", config.num_labels()), config.where(),
                "It needs two: the start and the end of the answer");
  }
}

PyTree BertForQuestionAnswering::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const BertModel::Output output = bert_(BertInputs(args), flags);
  const std::vector<at::Tensor> ends = at::split(qa_outputs_(output.last_hidden_state), 1, -1);
  return with_recorded(
      "transformers.modeling_outputs.QuestionAnsweringModelOutput",
      {{"start_logits", ends[0].squeeze(-1).contiguous()}, {"end_logits", ends[1].squeeze(-1).contiguous()}}, output);
}

}  // namespace exporters::models
