#pragma once

#include "exporters/models/layers/activations.h"
#include "exporters/models/layers/layers.h"

#include <string>

namespace exporters::models {

struct MlpOptions {
  std::string class_name;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  Activation activation = nullptr;
  bool bias = false;
};

/// down(act(gate(x)) · up(x)): parameters gate_proj, up_proj, down_proj.
class GatedMlp : public Module {
 public:
  GatedMlp(Scope scope, const MlpOptions& options);
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  Activation activation_;
  Linear gate_proj_;
  Linear up_proj_;
  Linear down_proj_;
};

/// The same with gate and up in one matrix.
class FusedGatedMlp : public Module {
 public:
  FusedGatedMlp(Scope scope, const MlpOptions& options, std::string in_name = "gate_up_proj",
                std::string out_name = "down_proj");
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  int64_t intermediate_size_;
  Activation activation_;
  Linear in_;
  Linear out_;
};

/// out(act(in(x))): parameters by the names given.
class PlainMlp : public Module {
 public:
  PlainMlp(Scope scope, const MlpOptions& options, std::string in_name, std::string out_name);
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  Activation activation_;
  Linear in_;
  Linear out_;
};

}  // namespace exporters::models
