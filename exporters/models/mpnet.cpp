// MPNet: Masked and Permuted Pre-training for Language Understanding (Song et al., 2020): RoBERTa without token types,
// with biases by relative position.
#include "exporters/models/bert_like.h"
#include "exporters/models/encoder_families.h"
#include "exporters/support/error.h"

namespace exporters::models {
namespace {

// The reference takes this id for the padding's, whatever the config says.
constexpr int64_t kPaddingIdx = 1;
// And these buckets.
constexpr RelativeBuckets kBuckets{.count = 32, .max_distance = 128};

BertLikeSpec spec_of(const ModelConfig& config) {
  BertLikeDefaults defaults;
  defaults.vocab_size = 30527;
  defaults.type_vocab_size = 0;
  defaults.pad_token_id = kPaddingIdx;
  BertLikeSpec spec = read_bert_like(config, defaults);
  spec.embeddings.class_name = "MPNetEmbeddings";
  spec.embeddings.positions = PositionKind::kNonPadding;
  spec.embeddings.padding_idx = kPaddingIdx;
  spec.embeddings.buffers_token_types = false;
  spec.names.attention = "attention.attn";
  spec.names.query = "q";
  spec.names.key = "k";
  spec.names.value = "v";
  spec.names.attention_output = "attention.attn.o";
  spec.names.attention_norm = "attention.LayerNorm";
  spec.relative_bias = "encoder.relative_attention_bias";
  spec.relative_buckets = kBuckets;
  spec.relative_rows = config.size("relative_attention_num_buckets", kBuckets.count);
  if (spec.relative_rows < kBuckets.count) {
    throw Error(fmt::format("config field \"relative_attention_num_buckets\" is {}: positions are sorted into {} "
                            "buckets, whatever it says",
                            spec.relative_rows, kBuckets.count),
                config.where());
  }
  return spec;
}

}  // namespace

std::unique_ptr<EncoderModel> make_mpnet(Scope scope, const ModelConfig& config, bool with_pooler) {
  return std::make_unique<BertLikeModel>(std::move(scope), kMpnet, config, spec_of(config), with_pooler);
}

std::vector<HeadSpec> mpnet_heads(EncoderTask task, const ModelConfig& config) {
  return roberta_like_heads(task, config, spec_of(config));
}

}  // namespace exporters::models
