#pragma once

#include "exporters/trace/trace.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace exporters::testing {

using Tensors = std::vector<at::Tensor>;
/// A forward on plain tensors.
using TensorForward = std::function<Tensors(const Tensors&)>;

/// "x0", "x1", …
inline std::string input_name(size_t i) { return "x" + std::to_string(i); }

/// The tensors as inputs of these names.
inline NamedInputs named(const Tensors& tensors) {
  NamedInputs inputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    inputs.emplace_back(input_name(i), tensors[i]);
  }
  return inputs;
}

/// The forward as a trace calls one: it takes its inputs in order, and gives a tuple.
inline std::function<PyTree(const NamedInputs&)> on_named_inputs(TensorForward forward) {
  return [forward = std::move(forward)](const NamedInputs& inputs) {
    Tensors tensors;
    for (const auto& [name, value] : inputs) {
      tensors.push_back(value.tensor());
    }
    std::vector<PyTree> outputs;
    for (const at::Tensor& output : forward(tensors)) {
      outputs.emplace_back(output);
    }
    return PyTree::tuple(std::move(outputs));
  };
}

}  // namespace exporters::testing
