// DistilBERT (Sanh et al., 2019): BERT without token types and pooling layer, under other names.
#include "exporters/models/bert_like.h"
#include "exporters/models/encoder_families.h"
#include "exporters/support/error.h"

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;
constexpr double kEps = 1e-12;

BertLayerNames layer_names() {
  BertLayerNames names;
  names.attention = "attention";
  names.query = "q_lin";
  names.key = "k_lin";
  names.value = "v_lin";
  names.attention_output = "attention.out_lin";
  names.attention_norm = "sa_layer_norm";
  names.intermediate = "ffn.lin1";
  names.output = "ffn.lin2";
  names.output_norm = "output_layer_norm";
  return names;
}

// The config's attribute map: checkpoints may have either name.
int64_t size(const ModelConfig& config, std::string_view name, std::string_view other_name, int64_t fallback) {
  return config.size(config.has(name) ? name : other_name, fallback);
}

BertLikeSpec spec_of(const ModelConfig& config) {
  BertLikeSpec spec;
  spec.hidden_size = size(config, "dim", "hidden_size", 768);
  spec.intermediate_size = config.size("hidden_dim", 4 * 768);
  spec.num_attention_heads = size(config, "n_heads", "num_attention_heads", 12);
  spec.activation = activation(config.string("activation", "gelu"));
  spec.eps = kEps;
  spec.tie_word_embeddings = config.flag("tie_word_embeddings", true);
  spec.layers = numbered("transformer.layer.",
                         config.size(config.has("n_layers") ? "n_layers" : "num_hidden_layers", 6, 0, kMaxLayers));
  spec.names = layer_names();
  check_bert_like(config, spec);
  spec.embeddings.class_name = "Embeddings";
  spec.embeddings.vocab_size = config.size("vocab_size", 30522);
  spec.embeddings.width = spec.hidden_size;
  spec.embeddings.max_positions = config.size("max_position_embeddings", 512);
  spec.embeddings.padding_idx = config.optional_integer("pad_token_id", 0);
  spec.embeddings.eps = kEps;
  spec.embeddings.buffers_token_types = false;
  return spec;
}

}  // namespace

std::unique_ptr<EncoderModel> make_distilbert(Scope scope, const ModelConfig& config, bool with_pooler) {
  return std::make_unique<BertLikeModel>(std::move(scope), kDistilBert, config, spec_of(config), with_pooler);
}

std::vector<HeadSpec> distilbert_heads(EncoderTask task, const ModelConfig& config) {
  const BertLikeSpec spec = spec_of(config);
  const auto first_token = [&](int64_t scores) {
    return first_token_head(spec.hidden_size, "pre_classifier", activation("relu"), "classifier", scores);
  };
  switch (task) {
    case EncoderTask::kMaskedLM:
      return {
          language_model_head(spec.hidden_size, spec.hidden_size, spec.embeddings.vocab_size,
                              {.dense = "vocab_transform", .norm = "vocab_layer_norm", .decoder = "vocab_projector"},
                              spec.activation, spec.eps)};
    case EncoderTask::kSequenceClassification:
      return {first_token(config.num_labels())};
    case EncoderTask::kMultipleChoice:
      return {first_token(1)};
    default:
      return {token_head(task, spec.hidden_size, config)};
  }
}

}  // namespace exporters::models
