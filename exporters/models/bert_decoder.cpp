#include "exporters/models/bert_decoder.h"

#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>

#include <algorithm>

namespace exporters::models {
namespace {

constexpr std::string_view kCausalLmOutput = "transformers.modeling_outputs.CausalLMOutputWithCrossAttentions";

DecoderFamily as_decoder(const EncoderFamily& family) {
  DecoderFamily decoder;
  decoder.prefix = family.prefix;
  decoder.base = family.base;
  decoder.embeddings = family.word_embeddings;
  decoder.base_output = family.base_output;
  decoder.lists_cross_attentions = true;
  return decoder;
}

DecoderTraits decoder_traits(const BertLikeSpec& spec) {
  DecoderTraits traits;
  traits.vocab_size = spec.embeddings.vocab_size;
  traits.hidden_size = spec.hidden_size;
  traits.num_key_value_heads = spec.num_attention_heads;
  traits.head_dim = spec.hidden_size / spec.num_attention_heads;
  traits.sliding_windows.resize(spec.layers.size());
  traits.max_positions = spec.embeddings.max_sequence();
  traits.pad_token_id = spec.embeddings.padding_idx;
  traits.tie_word_embeddings = spec.tie_word_embeddings;
  traits.packs_sequences = false;
  return traits;
}

}  // namespace

BertLikeDecoder::BertLikeDecoder(Scope scope, const EncoderFamily& family, const ModelConfig& config, BertLikeSpec spec)
    : DecoderModel(std::move(scope), as_decoder(family), config, decoder_traits(spec)),
      spec_(std::move(spec)),
      embeddings_(child("embeddings"), spec_.embeddings) {
  ensure(!spec_.layers.empty(), "config field \"num_hidden_layers\" is 0: a decoder has layers, whose keys it caches");
  if (!spec_.projection.empty()) {
    projection_.emplace(child(spec_.projection), spec_.embeddings.width, spec_.hidden_size);
  }
  const MakeEncoderAttention make_attention = bert_self_attention(family, spec_);
  for (const std::string& name : spec_.layers) {
    layers_.emplace_back(child(name), fmt::format("{}{}", family.prefix, spec_.names.layer_class), spec_,
                         make_attention);
  }
}

std::vector<ArgumentSpec> BertLikeDecoder::arguments() const {
  using Kind = ArgumentSpec::Kind;
  std::vector<ArgumentSpec> specs = DecoderModel::arguments();
  const auto positions =
      std::find_if(specs.begin(), specs.end(), [](const ArgumentSpec& spec) { return spec.name == "position_ids"; });
  positions->limit = spec_.embeddings.max_positions;
  specs.insert(positions, {"token_type_ids", Kind::kIndices, {2}, spec_.embeddings.type_vocab_size, "type_vocab_size"});
  for (const char* name : {"encoder_hidden_states", "encoder_attention_mask"}) {
    specs.push_back({name, Kind::kRefused, {}, 0, "cross-attention is not implemented"});
  }
  return specs;
}

at::Tensor BertLikeDecoder::embed(const at::Tensor& input_ids) const { return embeddings_.embed(input_ids); }

// Embeddings don't tell which of them are padding; the reference counts them from the first position on, also behind a
// cache.
at::Tensor BertLikeDecoder::positions(const ForwardArgs& args, const CacheSpan& span,
                                      const c10::SymInt& queries) const {
  if (spec_.embeddings.positions == PositionKind::kIndex) {
    return DecoderModel::positions(args, span, queries);
  }
  const int64_t padding = spec_.embeddings.padding_idx.value();
  const at::Tensor input_ids = args.tensor("input_ids");
  if (input_ids.defined()) {
    return non_padding_positions(input_ids, padding, span.past, span.past_tensor);
  }
  return at::arange(padding + 1, queries + padding + 1, at::TensorOptions().dtype(c10::ScalarType::Long)).unsqueeze(0);
}

at::Tensor BertLikeDecoder::begin(const at::Tensor& embeddings, Pass& pass) const {
  ForwardArgs args{{"inputs_embeds", embeddings}, {"position_ids", pass.position_ids}};
  if (const at::Tensor token_types = pass.args->tensor("token_type_ids"); token_types.defined()) {
    args.set("token_type_ids", token_types);
  }
  const at::Tensor hidden = embeddings_(EncoderInputs(args));
  return projection_ ? (*projection_)(hidden) : hidden;
}

AttentionResult BertLikeDecoder::run_layer(size_t index, const at::Tensor& hidden, const LayerInputs& inputs) const {
  EncoderPass pass;
  pass.kind = inputs.pass->kind;
  pass.causal = &inputs.mask;
  pass.cache = inputs.cache;
  return layers_[index](hidden, pass);
}

BertLikeForCausalLM::BertLikeForCausalLM(std::string_view class_name, const EncoderFamily& family,
                                         const ModelConfig& config, BertLikeSpec spec)
    : PreTrainedModel(Scope{}, fmt::format("{}{}", family.prefix, class_name), config), family_(family) {
  if (!spec.is_decoder) {
    throw Error(fmt::format("config field \"is_decoder\" is not true: {} generates as a decoder", this->class_name()),
                config.where(),
                fmt::format("Set it, or take {}ForMaskedLM, which computes what the reference does without it.",
                            family.prefix));
  }
  const auto make_base = [&] { model_.emplace(child(std::string(family.base)), family, config, spec); };
  if (!family.heads_first) {
    make_base();
  }
  head_.emplace(*this, family.heads(EncoderTask::kMaskedLM, config).front());
  if (family.heads_first) {
    make_base();
  }
}

std::vector<ArgumentSpec> BertLikeForCausalLM::arguments() const {
  std::vector<ArgumentSpec> specs = model_->arguments();
  specs.push_back({"logits_to_keep", ArgumentSpec::Kind::kCount});
  return specs;
}

std::vector<TiedWeights> BertLikeForCausalLM::tied_weights() const {
  return model_->traits().tie_word_embeddings ? tied_to_words(head_->spec(), family_) : std::vector<TiedWeights>{};
}

PyTree BertLikeForCausalLM::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const DecoderModel::Output output = (*model_)(args, flags);
  EncoderModel::Output states;
  states.last_hidden_state = kept_positions(output.last_hidden_state, args.find("logits_to_keep"));
  return PyTree::object(std::string(kCausalLmOutput),
                        {{"logits", (*head_)(states, EncoderInputs(args), model_->word_embeddings())},
                         {"cache", output.cache},
                         {"hidden_states", output.hidden_states},
                         {"attentions", output.attentions},
                         {"cross_attentions", output.cross_attentions}});
}

}  // namespace exporters::models
