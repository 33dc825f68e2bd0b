#pragma once

#include "exporters/models/encoder.h"

#include <optional>
#include <string>

namespace exporters::models {

/// Where a token stands when position_ids are not given.
enum class PositionKind {
  kIndex,       ///< 0, 1, 2, …
  kNonPadding,  ///< padding has padding_idx, other tokens count on from it; of inputs_embeds, all count
};

struct TextEmbeddingsOptions {
  std::string class_name;
  int64_t vocab_size = 0;
  int64_t width = 0;
  int64_t max_positions = 0;
  /// Without it, positions have no embedding.
  bool embeds_positions = true;
  PositionKind positions = PositionKind::kIndex;
  int64_t type_vocab_size = 0;  ///< 0: token types have no embedding
  std::optional<int64_t> padding_idx = {};
  double eps = 0;
  /// The sum goes through a dense layer without bias, "embed_proj", to this width.
  std::optional<int64_t> projected_width = {};
  /// The table of positions is declared last and has the padding index too (roberta).
  bool positions_declared_last = false;
  /// Positions are added before token types.
  bool positions_added_first = false;
  /// There is a buffer of zeros for missing token types.
  bool buffers_token_types = true;

  /// The longest sequence: nothing when positions have no embedding.
  std::optional<int64_t> max_sequence() const;
};

/// int64 [batch, sequence]: `padding_idx` for padding, for other tokens how many of those stand before it in the row,
/// counted from padding_idx + 1.
/// @param past how many the row had before, a number or a 0-d tensor
at::Tensor non_padding_positions(const at::Tensor& input_ids, int64_t padding_idx, const c10::SymInt& past = 0,
                                 const at::Tensor& past_tensor = {});

/// norm(word + token type + position): [batch, sequence] → [batch, sequence, width]. Parameters word_embeddings,
/// position_embeddings, token_type_embeddings, LayerNorm.
class TextEmbeddings : public Module {
 public:
  TextEmbeddings(Scope scope, const TextEmbeddingsOptions& options);
  /// Throws Error for sequences longer than options.max_sequence().
  at::Tensor operator()(const EncoderInputs& inputs) const;
  const at::Tensor& words() const { return word_embeddings_.weight(); }
  /// The word embeddings alone: [batch, sequence] → [batch, sequence, width].
  at::Tensor embed(const at::Tensor& input_ids) const;

 private:
  void declare_positions();
  at::Tensor positions(const EncoderInputs& inputs, const c10::SymInt& length) const;
  at::Tensor token_types(const EncoderInputs& inputs, const c10::SymInt& length) const;

  TextEmbeddingsOptions options_;
  Embedding word_embeddings_;
  std::optional<Embedding> position_embeddings_;
  std::optional<Embedding> token_type_embeddings_;
  std::optional<Linear> embed_proj_;
  std::optional<LayerNorm> layer_norm_;
  at::Tensor position_ids_;    // [1, max_positions]: 0, 1, 2, …
  at::Tensor token_type_ids_;  // [1, max_positions]: zeros
};

}  // namespace exporters::models
