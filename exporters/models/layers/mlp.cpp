#include "exporters/models/layers/mlp.h"

#include "exporters/models/operators.h"

namespace exporters::models {

GatedMlp::GatedMlp(Scope scope, const MlpOptions& options)
    : Module(std::move(scope), options.class_name),
      activation_(options.activation),
      gate_proj_(child("gate_proj"), options.hidden_size, options.intermediate_size, options.bias),
      up_proj_(child("up_proj"), options.hidden_size, options.intermediate_size, options.bias),
      down_proj_(child("down_proj"), options.intermediate_size, options.hidden_size, options.bias) {}

at::Tensor GatedMlp::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  return down_proj_(activation_(gate_proj_(hidden)) * up_proj_(hidden));
}

FusedGatedMlp::FusedGatedMlp(Scope scope, const MlpOptions& options, std::string in_name, std::string out_name)
    : Module(std::move(scope), options.class_name),
      intermediate_size_(options.intermediate_size),
      activation_(options.activation),
      in_(child(std::move(in_name)), options.hidden_size, 2 * options.intermediate_size, options.bias),
      out_(child(std::move(out_name)), options.intermediate_size, options.hidden_size, options.bias) {}

at::Tensor FusedGatedMlp::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  const at::Tensor both = in_(hidden);
  const at::Tensor gate = both.slice(-1, 0, intermediate_size_);
  const at::Tensor up = both.slice(-1, intermediate_size_, 2 * intermediate_size_);
  return out_(up * activation_(gate));
}

PlainMlp::PlainMlp(Scope scope, const MlpOptions& options, std::string in_name, std::string out_name)
    : Module(std::move(scope), options.class_name),
      activation_(options.activation),
      in_(child(std::move(in_name)), options.hidden_size, options.intermediate_size, options.bias),
      out_(child(std::move(out_name)), options.intermediate_size, options.hidden_size, options.bias) {}

at::Tensor PlainMlp::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  return out_(activation_(in_(hidden)));
}

}  // namespace exporters::models
