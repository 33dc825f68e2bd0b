#include "exporters/models/decoder.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/index.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/split.h>
#include <ATen/ops/take_along_dim.h>
#include <ATen/ops/tanh.h>
#include <c10/util/StringUtil.h>

namespace exporters::models {
namespace {

std::string class_of(const DecoderFamily& family, std::string_view what) {
  return fmt::format("{}{}", family.prefix, what);
}

PyTree output_of(std::string_view type, std::vector<std::pair<std::string, PyTree>> fields, bool with_cache,
                 const DecoderModel::Output& output) {
  if (with_cache) {
    fields.emplace_back("cache", output.cache);
  }
  fields.emplace_back("hidden_states", output.hidden_states);
  fields.emplace_back("attentions", output.attentions);
  return PyTree::object(fmt::format("transformers.modeling_outputs.{}", type), std::move(fields));
}

}  // namespace

at::Tensor kept_positions(const at::Tensor& hidden, const PyTree* keep) {
  if (keep == nullptr || keep->is_none()) {
    return hidden;
  }
  if (!keep->is_tensor()) {
    const int64_t count = std::get<int64_t>(keep->leaf());
    ensure(count >= 0, "logits_to_keep is {}: it is the number of last positions, or 0 for all", count);
    return count == 0 ? hidden : hidden.slice(1, -count);
  }
  const at::Tensor& indices = keep->tensor();
  if (indices.dim() == 1) {
    return hidden.index_select(1, indices);
  }
  if (indices.dim() == 2) {
    return at::take_along_dim(hidden, indices.to(c10::ScalarType::Long).unsqueeze(-1), 1);
  }
  throw Error(fmt::format("logits_to_keep has {} dimensions", indices.dim()), {},
              "It is a number, [positions] or [batch, positions]");
}

DecoderHead::DecoderHead(const DecoderFamily& family, std::string_view class_name, std::string_view base,
                         MakeDecoder make, const ModelConfig& config)
    : PreTrainedModel(Scope{}, class_of(family, class_name), config),
      base_(base),
      model_(make(child(std::string(base)), config)) {}

DecoderForCausalLM::DecoderForCausalLM(const DecoderFamily& family, MakeDecoder make, const ModelConfig& config)
    : DecoderHead(family, family.causal_lm_class, family.base, make, config),
      lm_head_(child(std::string(family.lm_head)), model_->traits().hidden_size, model_->traits().vocab_size,
               family.lm_head_bias) {}

std::vector<ArgumentSpec> DecoderForCausalLM::arguments() const {
  std::vector<ArgumentSpec> specs = DecoderHead::arguments();
  specs.push_back({"logits_to_keep", ArgumentSpec::Kind::kCount});
  return specs;
}

std::vector<TiedWeights> DecoderForCausalLM::tied_weights() const {
  if (!model_->traits().tie_word_embeddings) {
    return {};
  }
  const DecoderFamily& family = model_->family();
  return {{fmt::format("{}.weight", family.lm_head), fmt::format("{}.{}.weight", family.base, family.embeddings)}};
}

PyTree DecoderForCausalLM::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const DecoderModel::Output output = (*model_)(args, flags);
  const DecoderTraits& traits = model_->traits();
  at::Tensor logits = lm_head_(kept_positions(output.last_hidden_state, args.find("logits_to_keep")));
  if (traits.logits_scaling != 1.0) {
    logits = logits / traits.logits_scaling;
  }
  if (traits.final_logit_softcap) {
    logits = at::tanh(logits / *traits.final_logit_softcap) * *traits.final_logit_softcap;
  }
  return PyTree::object(fmt::format("transformers.modeling_outputs.{}", model_->family().causal_lm_output),
                        {{"logits", logits},
                         {"cache", output.cache},
                         {"hidden_states", output.hidden_states},
                         {"attentions", output.attentions},
                         {"cross_attentions", output.cross_attentions}});
}

DecoderForSequenceClassification::DecoderForSequenceClassification(const DecoderFamily& family,
                                                                   std::string_view class_name, MakeDecoder make,
                                                                   const ModelConfig& config)
    : DecoderHead(family, class_name, family.base, make, config),
      score_(child("score"), model_->traits().hidden_size, config.num_labels(), /*bias=*/false) {}

// Without ids, or without an id for padding, the last position counts, as in the reference, which refuses batches then.
at::Tensor DecoderForSequenceClassification::pool(const at::Tensor& logits, const ForwardArgs& args) const {
  const auto pad_token_id = model_->traits().pad_token_id;
  if (!pad_token_id) {
    require(logits.sym_size(0).sym_eq(1), [&] {
      return c10::str("a batch of ", logits.sym_size(0), " needs to tell padding from text, and config field ",
                      "\"pad_token_id\" is not set");
    });
  }
  const at::Tensor input_ids = args.tensor("input_ids");
  if (!pad_token_id || !input_ids.defined()) {
    return logits.select(1, -1);
  }
  const auto int32 = c10::ScalarType::Int;
  const at::Tensor is_text = at::ne(input_ids, *pad_token_id).to(int32);
  const at::Tensor steps = at::arange(input_ids.sym_size(1), at::TensorOptions().dtype(int32));
  const at::Tensor last = at::argmax(steps * is_text, -1);
  const at::Tensor rows = at::arange(logits.sym_size(0), at::TensorOptions().dtype(c10::ScalarType::Long));
  return at::index(logits, {rows, last});
}

PyTree DecoderForSequenceClassification::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const DecoderModel::Output output = (*model_)(args, flags);
  return output_of("SequenceClassifierOutputWithPast", {{"logits", pool(score_(output.last_hidden_state), args)}},
                   /*with_cache=*/true, output);
}

DecoderForTokenClassification::DecoderForTokenClassification(const DecoderFamily& family, MakeDecoder make,
                                                             const ModelConfig& config, std::string_view classifier)
    : DecoderHead(family, "ForTokenClassification", family.base, make, config),
      score_(child(std::string(classifier)), model_->traits().hidden_size, config.num_labels(),
             config.flag("token_classification_bias", true)) {}

PyTree DecoderForTokenClassification::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const DecoderModel::Output output = (*model_)(args, flags);
  return output_of("TokenClassifierOutput", {{"logits", score_(output.last_hidden_state)}}, /*with_cache=*/false,
                   output);
}

DecoderForQuestionAnswering::DecoderForQuestionAnswering(const DecoderFamily& family, MakeDecoder make,
                                                         const ModelConfig& config)
    : DecoderHead(family, "ForQuestionAnswering", family.base_in_question_answering, make, config),
      qa_outputs_(child("qa_outputs"), model_->traits().hidden_size, 2) {}

PyTree DecoderForQuestionAnswering::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const DecoderModel::Output output = (*model_)(args, flags);
  const std::vector<at::Tensor> ends = at::split(qa_outputs_(output.last_hidden_state), 1, -1);
  return output_of(
      "QuestionAnsweringModelOutput",
      {{"start_logits", ends[0].squeeze(-1).contiguous()}, {"end_logits", ends[1].squeeze(-1).contiguous()}},
      /*with_cache=*/false, output);
}

}  // namespace exporters::models
