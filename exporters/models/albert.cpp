// ALBERT: A Lite BERT for Self-supervised Learning of Language Representations (Lan et al., 2019): BERT whose layers
// share their weights by groups, with embeddings of a width of their own.
#include "exporters/models/bert_like.h"
#include "exporters/models/encoder_families.h"
#include "exporters/support/error.h"

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;

BertLayerNames layer_names() {
  BertLayerNames names;
  names.attention = "attention";
  names.attention_class = "Attention";
  names.attention_output = "attention.dense";
  names.attention_norm = "attention.LayerNorm";
  names.intermediate = "ffn";
  names.output = "ffn_output";
  names.output_norm = "full_layer_layer_norm";
  names.output_norm_first = true;
  return names;
}

// num_hidden_layers passes through groups of inner_group_num layers each; a group serves as many in a row as it can.
void read_layers(const ModelConfig& config, BertLikeSpec& spec) {
  const int64_t count = config.size("num_hidden_layers", 12, 1, kMaxLayers);
  const int64_t groups = config.size("num_hidden_groups", 1, 1, count);
  const int64_t inner = config.size("inner_group_num", 1, 1, kMaxLayers);
  spec.layers.clear();
  for (int64_t group = 0; group < groups; ++group) {
    for (std::string& name : numbered(fmt::format("encoder.albert_layer_groups.{}.albert_layers.", group), inner)) {
      spec.layers.push_back(std::move(name));
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    // In floating point, as the reference divides.
    const auto group =
        static_cast<size_t>(static_cast<double>(i) / (static_cast<double>(count) / static_cast<double>(groups)));
    for (int64_t j = 0; j < inner; ++j) {
      spec.order.push_back(group * static_cast<size_t>(inner) + static_cast<size_t>(j));
    }
  }
}

BertLikeSpec spec_of(const ModelConfig& config) {
  BertLikeDefaults defaults;
  defaults.vocab_size = 30000;
  defaults.hidden_size = 4096;
  defaults.num_attention_heads = 64;
  defaults.intermediate_size = 16384;
  defaults.hidden_act = "gelu_new";
  BertLikeSpec spec = read_bert_like(config, defaults);
  spec.embeddings.class_name = "AlbertEmbeddings";
  spec.embeddings.width = config.size("embedding_size", 128);
  spec.projection = "encoder.embedding_hidden_mapping_in";
  spec.names = layer_names();
  read_layers(config, spec);
  return spec;
}

HeadSpec words(const BertLikeSpec& spec) {
  HeadSpec head = language_model_head(spec.hidden_size, spec.embeddings.width, spec.embeddings.vocab_size,
                                      {.dense = "predictions.dense",
                                       .norm = "predictions.LayerNorm",
                                       .decoder = "predictions.decoder",
                                       .bias = "predictions"},
                                      spec.activation, spec.eps);
  head.norms_first = true;
  return head;
}

}  // namespace

std::unique_ptr<EncoderModel> make_albert(Scope scope, const ModelConfig& config, bool with_pooler) {
  return std::make_unique<BertLikeModel>(std::move(scope), kAlbert, config, spec_of(config), with_pooler);
}

std::vector<HeadSpec> albert_heads(EncoderTask task, const ModelConfig& config) {
  const BertLikeSpec spec = spec_of(config);
  return bert_task_heads(task, config, spec, words(spec),
                         {.name = "sop_classifier.classifier", .field = "sop_logits", .scores = config.num_labels()});
}

}  // namespace exporters::models
