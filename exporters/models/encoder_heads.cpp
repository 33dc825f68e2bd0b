#include "exporters/models/encoder.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/index.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/split.h>
#include <ATen/ops/sum.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

namespace exporters::models {
namespace {

constexpr int64_t kSampleChoices = 2;

/// After the family's prefix.
std::string_view class_of(EncoderTask task) {
  switch (task) {
    case EncoderTask::kMaskedLM:
      return "ForMaskedLM";
    case EncoderTask::kPreTraining:
      return "ForPreTraining";
    case EncoderTask::kNextSentencePrediction:
      return "ForNextSentencePrediction";
    case EncoderTask::kSequenceClassification:
      return "ForSequenceClassification";
    case EncoderTask::kTokenClassification:
      return "ForTokenClassification";
    case EncoderTask::kQuestionAnswering:
      return "ForQuestionAnswering";
    default:
      return "ForMultipleChoice";
  }
}

std::string output_class(EncoderTask task, const EncoderFamily& family) {
  const std::string shared = "transformers.modeling_outputs.";
  switch (task) {
    case EncoderTask::kMaskedLM:
      return shared + "MaskedLMOutput";
    case EncoderTask::kPreTraining:
      return fmt::format("transformers.models.{0}.modeling_{0}.{1}ForPreTrainingOutput", family.base, family.prefix);
    case EncoderTask::kNextSentencePrediction:
      return shared + "NextSentencePredictorOutput";
    case EncoderTask::kSequenceClassification:
      return shared + "SequenceClassifierOutput";
    case EncoderTask::kTokenClassification:
      return shared + "TokenClassifierOutput";
    case EncoderTask::kQuestionAnswering:
      return shared + "QuestionAnsweringModelOutput";
    default:
      return shared + "MultipleChoiceModelOutput";
  }
}

void check_mask(const at::Tensor& mask) {
  ensure(mask.dim() == 2, "this head reads attention_mask as [batch, sequence], not with {} dimensions", mask.dim());
}

/// The first token of each row that the mask shows. @param hidden [batch, sequence, hidden]
at::Tensor first_visible(const at::Tensor& hidden, const at::Tensor& mask) {
  if (!mask.defined()) {
    return hidden.select(1, 0);
  }
  check_mask(mask);
  const at::Tensor rows = at::arange(hidden.sym_size(0), at::TensorOptions().dtype(c10::ScalarType::Long));
  return at::index(hidden, {rows, at::argmax(mask, -1)});
}

/// The mean of the tokens that the mask shows. @param hidden [batch, sequence, hidden]
at::Tensor masked_mean(const at::Tensor& hidden, const at::Tensor& mask) {
  if (!mask.defined()) {
    return at::mean(hidden, 1);
  }
  check_mask(mask);
  return at::sum(hidden * mask.unsqueeze(-1), 1) / at::sum(mask, 1, /*keepdim=*/true);
}

at::Tensor read(HeadInput input, const EncoderModel::Output& output, const EncoderInputs& inputs) {
  const at::Tensor& hidden = output.last_hidden_state;
  switch (input) {
    case HeadInput::kEach:
      return hidden;
    case HeadInput::kFirst:
      return hidden.select(1, 0);
    case HeadInput::kLast:
      return hidden.select(1, -1);
    case HeadInput::kMean:
      return at::mean(hidden, 1);
    case HeadInput::kFirstVisible:
      return first_visible(hidden, inputs.attention_mask);
    case HeadInput::kVisibleMean:
      return masked_mean(hidden, inputs.attention_mask);
    default:
      return output.pooler_output;
  }
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

/// Joins the choices of all inputs. Returns how many there are.
c10::SymInt join_choices(EncoderInputs& inputs) {
  const at::Tensor& main_input = inputs.input_ids.defined() ? inputs.input_ids : inputs.inputs_embeds;
  const c10::SymInt batch = main_input.sym_size(0);
  const c10::SymInt choices = main_input.sym_size(1);
  for (at::Tensor* input : {&inputs.input_ids, &inputs.attention_mask, &inputs.token_type_ids, &inputs.position_ids,
                            &inputs.inputs_embeds}) {
    *input = join_choices(*input, batch, choices);
  }
  return choices;
}

}  // namespace

HeadSpec dense_head(HeadInput input, int64_t hidden_size, std::string name, int64_t out_features) {
  HeadSpec spec;
  spec.input = input;
  spec.in_features = hidden_size;
  spec.layers = {{std::move(name), out_features}};
  return spec;
}

HeadSpec first_token_head(int64_t hidden_size, std::string first, Activation activation, std::string second,
                          int64_t out_features) {
  HeadSpec spec = dense_head(HeadInput::kFirst, hidden_size, std::move(first), hidden_size);
  spec.layers.front().activation = activation;
  spec.layers.push_back({std::move(second), out_features});
  return spec;
}

HeadSpec language_model_head(int64_t hidden_size, int64_t embedding_size, int64_t vocab_size,
                             const LanguageModelNames& names, Activation activation, double eps) {
  HeadSpec spec = dense_head(HeadInput::kEach, hidden_size, names.dense, embedding_size);
  spec.layers.front().activation = activation;
  spec.layers.push_back({.name = names.norm, .eps = eps});
  spec.layers.push_back({.name = names.decoder, .out_features = vocab_size});
  spec.is_tied = true;
  spec.bias = names.bias;
  spec.bias_extent = vocab_size;
  return spec;
}

HeadSpec question_answering_head(int64_t hidden_size, const ModelConfig& config) {
  if (config.num_labels() != 2) {
    throw Error(fmt::format("question answering has {} labels", config.num_labels()), config.where(),
                "It needs two: the start and the end of the answer");
  }
  return dense_head(HeadInput::kEach, hidden_size, "qa_outputs", 2);
}

HeadSpec token_head(EncoderTask task, int64_t hidden_size, const ModelConfig& config) {
  if (task == EncoderTask::kQuestionAnswering) {
    return question_answering_head(hidden_size, config);
  }
  ensure(task == EncoderTask::kTokenClassification, "model type \"{}\" has no class {}", config.model_type(),
         class_of(task));
  return dense_head(HeadInput::kEach, hidden_size, "classifier", config.num_labels());
}

HeadLayers::Bias::Bias(Scope scope, int64_t extent) : Module(std::move(scope), "Bias") {
  parameter("bias", value, {extent});
}

HeadLayers::HeadLayers(Module& model, HeadSpec spec) : spec_(std::move(spec)) {
  if (!spec_.bias.empty()) {
    bias_.emplace(Scope{&model, spec_.bias}, spec_.bias_extent);
  }
  layers_.resize(spec_.layers.size());
  if (spec_.norms_first) {
    declare(model, /*dense=*/false, /*norms=*/true);
    declare(model, /*dense=*/true, /*norms=*/false);
  } else {
    declare(model, /*dense=*/true, /*norms=*/true);
  }
}

void HeadLayers::declare(Module& model, bool dense, bool norms) {
  int64_t features = spec_.in_features;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const HeadLayer& layer = spec_.layers[i];
    if (layer.name.empty()) {
      continue;
    }
    if (layer.out_features == 0) {
      if (norms) {
        layers_[i].norm.emplace(Scope{&model, layer.name}, features, layer.eps, layer.bias);
      }
      continue;
    }
    if (dense) {
      layers_[i].dense.emplace(Scope{&model, layer.name}, features, layer.out_features, layer.bias);
    }
    features = layer.out_features;
  }
}

at::Tensor HeadLayers::operator()(const EncoderModel::Output& output, const EncoderInputs& inputs,
                                  const at::Tensor& word_embeddings) const {
  at::Tensor scores = read(spec_.input, output, inputs);
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].dense) {
      scores = (*layers_[i].dense)(scores);
    } else if (layers_[i].norm) {
      scores = (*layers_[i].norm)(scores);
    }
    if (spec_.layers[i].activation != nullptr) {
      scores = spec_.layers[i].activation(scores);
    }
  }
  if (spec_.reuses_word_embeddings) {
    scores = at::linear(scores, word_embeddings, bias_->value);
  }
  return spec_.squeezes ? scores.squeeze(-1) : scores;
}

EncoderWithHead::EncoderWithHead(const EncoderFamily& family, EncoderTask task, const ModelConfig& config)
    : PreTrainedModel(Scope{}, fmt::format("{}{}", family.prefix, class_of(task)), config),
      family_(family),
      task_(task) {
  std::vector<HeadSpec> specs = family.heads(task, config);
  const auto is_pooled = [](const HeadSpec& spec) { return spec.input == HeadInput::kPooled; };
  const bool with_pooler = std::any_of(specs.begin(), specs.end(), is_pooled);
  const auto make_base = [&] { model_ = family.make(child(std::string(family.base)), config, with_pooler); };
  if (!family.heads_first) {
    make_base();
  }
  for (HeadSpec& spec : specs) {
    heads_.emplace_back(*this, std::move(spec));
  }
  if (family.heads_first) {
    make_base();
  }
}

std::vector<ArgumentSpec> EncoderWithHead::arguments() const {
  std::vector<ArgumentSpec> specs = model_->arguments();
  if (task_ == EncoderTask::kMultipleChoice) {
    for (ArgumentSpec& spec : specs) {
      if (!spec.ranks.empty()) {
        spec.ranks = {spec.ranks.front() + 1};
      }
    }
  }
  return specs;
}

ForwardArgs EncoderWithHead::sample_inputs(const SampleSize& size) const {
  if (task_ != EncoderTask::kMultipleChoice) {
    return model_->sample_inputs(size);
  }
  ForwardArgs args;
  for (const auto& [name, value] :
       model_->sample_inputs({.batch = size.batch * kSampleChoices, .sequence = size.sequence, .past = size.past})) {
    args.set(name, value.tensor().unflatten(0, {size.batch, kSampleChoices}));
  }
  return args;
}

AxisNames EncoderWithHead::axis_names(bool with_cache) const {
  AxisNames names = model_->axis_names(with_cache);
  if (task_ == EncoderTask::kMultipleChoice) {
    for (auto& [input, axes] : names) {
      axes = {{0, axes[0]}, {1, {"choices"}}, {2, axes[1]}};
    }
    names["inputs_embeds"][3] = {};
  }
  return names;
}

std::vector<TiedWeights> tied_to_words(const HeadSpec& head, const EncoderFamily& family) {
  if (!head.is_tied) {
    return {};
  }
  const std::string& decoder = head.layers.back().name;
  std::vector<TiedWeights> pairs = {
      {decoder + ".weight", fmt::format("{}.{}.weight", family.base, family.word_embeddings)}};
  if (!head.bias.empty()) {
    pairs.push_back({decoder + ".bias", head.bias + ".bias"});
  }
  return pairs;
}

std::vector<TiedWeights> EncoderWithHead::tied_weights() const {
  std::vector<TiedWeights> pairs;
  for (const HeadLayers& head : heads_) {
    if (model_->traits().tie_word_embeddings) {
      const std::vector<TiedWeights> tied = tied_to_words(head.spec(), family_);
      pairs.insert(pairs.end(), tied.begin(), tied.end());
    }
  }
  return pairs;
}

PyTree EncoderWithHead::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  EncoderInputs inputs(args);
  c10::SymInt choices = 0;
  if (task_ == EncoderTask::kMultipleChoice) {
    choices = join_choices(inputs);
  }
  const EncoderModel::Output output = (*model_)(inputs, flags);
  std::vector<std::pair<std::string, PyTree>> fields;
  for (const HeadLayers& head : heads_) {
    at::Tensor scores = head(output, inputs, model_->word_embeddings());
    if (task_ == EncoderTask::kQuestionAnswering) {
      const std::vector<at::Tensor> ends = at::split(scores, 1, -1);
      fields.emplace_back("start_logits", ends[0].squeeze(-1).contiguous());
      fields.emplace_back("end_logits", ends[1].squeeze(-1).contiguous());
      continue;
    }
    if (task_ == EncoderTask::kMultipleChoice) {
      scores = scores.view_symint({-1, choices});
    }
    fields.emplace_back(head.spec().field, std::move(scores));
  }
  fields.emplace_back("hidden_states", output.hidden_states);
  fields.emplace_back("attentions", output.attentions);
  return PyTree::object(output_class(task_, family_), std::move(fields));
}

}  // namespace exporters::models
