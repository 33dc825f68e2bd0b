#include "exporters/models/model_parts.h"

#include "exporters/models/samples.h"
#include "exporters/support/error.h"

#include <ATen/ops/linear.h>

namespace exporters::models {

TokenEmbedding::TokenEmbedding(Scope scope, const DecoderModel& decoder)
    : PreTrainedModel(std::move(scope), decoder.embedding().class_name(), decoder.config()), decoder_(decoder) {}

std::vector<ArgumentSpec> TokenEmbedding::arguments() const {
  return {{"input_ids", ArgumentSpec::Kind::kIndices, {2}, decoder_.traits().vocab_size, "vocab_size"}};
}

ForwardArgs TokenEmbedding::sample_inputs(const SampleSize& size) const {
  return {{"input_ids", sample_ids(size.batch, size.sequence, decoder_.traits().vocab_size)}};
}

AxisNames TokenEmbedding::axis_names(bool) const { return {{"input_ids", {{0, {"batch"}}, {1, {"sequence"}}}}}; }

PyTree TokenEmbedding::run(const ForwardArgs& args, const Flags&) const {
  return decoder_.embeddings_of(args.tensor("input_ids"));
}

LmHead::LmHead(Scope scope, const ModelConfig& config, int64_t hidden_size, int64_t vocab_size)
    : PreTrainedModel(std::move(scope), "Linear", config), hidden_size_(hidden_size) {
  parameter("weight", weight_, {vocab_size, hidden_size});
}

at::Tensor LmHead::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  return at::linear(hidden, weight_);
}

std::vector<ArgumentSpec> LmHead::arguments() const { return {{"input", ArgumentSpec::Kind::kFloats, {3}}}; }

ForwardArgs LmHead::sample_inputs(const SampleSize& size) const {
  return {{"input", sample_values({size.batch, size.sequence, hidden_size_}, /*seed=*/0).to(parameter_dtype())}};
}

AxisNames LmHead::axis_names(bool) const { return {{"input", {{0, {"batch"}}, {1, {"sequence"}}, {2, {}}}}}; }

PyTree LmHead::run(const ForwardArgs& args, const Flags&) const { return (*this)(args.tensor("input")); }

}  // namespace exporters::models
