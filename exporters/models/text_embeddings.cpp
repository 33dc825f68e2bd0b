#include "exporters/models/text_embeddings.h"

#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/zeros.h>
#include <c10/util/StringUtil.h>

namespace exporters::models {
namespace {

at::TensorOptions int64() { return at::TensorOptions().dtype(c10::ScalarType::Long); }

}  // namespace

std::optional<int64_t> TextEmbeddingsOptions::max_sequence() const {
  if (!embeds_positions) {
    return std::nullopt;
  }
  return positions == PositionKind::kIndex ? max_positions : max_positions - *padding_idx - 1;
}

TextEmbeddings::TextEmbeddings(Scope scope, const TextEmbeddingsOptions& options)
    : Module(std::move(scope), options.class_name),
      options_(options),
      word_embeddings_(child("word_embeddings"), options.vocab_size, options.width, options.padding_idx) {
  if (!options.positions_declared_last) {
    declare_positions();
  }
  if (options.type_vocab_size > 0) {
    token_type_embeddings_.emplace(child("token_type_embeddings"), options.type_vocab_size, options.width);
  }
  if (options.projected_width) {
    embed_proj_.emplace(child("embed_proj"), options.width, *options.projected_width, /*bias=*/false);
  }
  layer_norm_.emplace(child("LayerNorm"), options.projected_width.value_or(options.width), options.eps);
  if (options.positions_declared_last) {
    declare_positions();
  }
  const int64_t count = options.max_positions;
  buffer("position_ids", position_ids_, [count] { return at::arange(count, int64()).unsqueeze(0); });
  if (options.buffers_token_types) {
    buffer("token_type_ids", token_type_ids_, [count] { return at::zeros({1, count}, int64()); });
  }
}

void TextEmbeddings::declare_positions() {
  if (options_.embeds_positions) {
    const auto padding_idx = options_.positions == PositionKind::kIndex ? std::nullopt : options_.padding_idx;
    position_embeddings_.emplace(child("position_embeddings"), options_.max_positions, options_.width, padding_idx);
  }
}

// As fairseq counts, where the reference has it from.
at::Tensor non_padding_positions(const at::Tensor& input_ids, int64_t padding_idx, const c10::SymInt& past,
                                 const at::Tensor& past_tensor) {
  const at::Tensor is_text = at::ne(input_ids, padding_idx).to(c10::ScalarType::Long);
  at::Tensor count = at::cumsum(is_text, 1);
  if (past_tensor.defined()) {
    count = count + past_tensor;
  }
  if (past.maybe_as_int() != 0) {
    count = count + past;
  }
  return count * is_text + padding_idx;
}

at::Tensor TextEmbeddings::positions(const EncoderInputs& inputs, const c10::SymInt& length) const {
  if (inputs.position_ids.defined()) {
    return inputs.position_ids;
  }
  const int64_t longest = options_.max_sequence().value();
  require(length.sym_le(longest), [&] {
    return c10::str("the sequence (axis 1) has ", length, " positions, the model has ", longest,
                    " (max_position_embeddings)");
  });
  if (options_.positions == PositionKind::kIndex) {
    return position_ids_.slice_symint(1, 0, length);
  }
  const int64_t padding = *options_.padding_idx;
  if (!inputs.input_ids.defined()) {
    return at::arange(padding + 1, length + padding + 1, int64()).unsqueeze(0);
  }
  return non_padding_positions(inputs.input_ids, padding);
}

at::Tensor TextEmbeddings::embed(const at::Tensor& input_ids) const {
  const auto scope = enter();
  return word_embeddings_(input_ids);
}

at::Tensor TextEmbeddings::token_types(const EncoderInputs& inputs, const c10::SymInt& length) const {
  if (inputs.token_type_ids.defined()) {
    return inputs.token_type_ids;
  }
  const bool is_buffered = options_.buffers_token_types && options_.positions == PositionKind::kIndex;
  return is_buffered && !inputs.position_ids.defined() ? token_type_ids_.slice_symint(1, 0, length)
                                                       : at::zeros_symint({1, length}, int64());
}

at::Tensor TextEmbeddings::operator()(const EncoderInputs& inputs) const {
  const auto scope = enter();
  at::Tensor sum = inputs.inputs_embeds.defined() ? inputs.inputs_embeds : word_embeddings_(inputs.input_ids);
  const c10::SymInt length = sum.sym_size(1);
  // First of all: they say when a sequence is too long.
  const at::Tensor positions = position_embeddings_ ? this->positions(inputs, length) : at::Tensor();
  const auto add_positions = [&] {
    if (position_embeddings_) {
      sum = sum + (*position_embeddings_)(positions);
    }
  };
  if (options_.positions_added_first) {
    add_positions();
  }
  if (token_type_embeddings_) {
    sum = sum + (*token_type_embeddings_)(token_types(inputs, length));
  }
  if (!options_.positions_added_first) {
    add_positions();
  }
  return (*layer_norm_)(embed_proj_ ? (*embed_proj_)(sum) : sum);
}

}  // namespace exporters::models
