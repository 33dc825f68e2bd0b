#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/graph/op_name.h"
#include "exporters/interpreter/evaluate.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace exporters {

/// Builds a program and runs it as it is built, call by call on real tensors: sizes and strides of the metadata are
/// those of the results, and `expected` is what the program has to give. In-place ops act on the real tensors too.
class GraphBuilder {
 public:
  Value* input(std::string_view name, at::Tensor sample) {
    return placeholder(InputSpec::Kind::kUserInput, name, {}, std::move(sample));
  }
  Value* buffer(std::string_view target, at::Tensor tensor) {
    program_->state[std::string(target)] = {tensor, {}};
    return placeholder(InputSpec::Kind::kBuffer, "b_" + std::string(target), target, tensor.clone());
  }
  Value* parameter(std::string_view target, at::Tensor tensor) {
    program_->state[std::string(target)] = {tensor, {}};
    return placeholder(InputSpec::Kind::kParameter, "p_" + std::string(target), target, std::move(tensor));
  }

  Node* node(std::string_view target, std::vector<Argument> args,
             std::vector<std::pair<std::string, Argument>> kwargs = {}) {
    Node* node = program_->graph->call(target, std::move(args), std::move(kwargs));
    std::vector<c10::IValue> results = evaluate(*node, [&](const Value& value) { return values_.at(&value); });
    for (c10::IValue& result : results) {
      add_output(node, std::move(result));
    }
    return node;
  }
  Value* call(std::string_view target, std::vector<Argument> args,
              std::vector<std::pair<std::string, Argument>> kwargs = {}) {
    return node(target, std::move(args), std::move(kwargs))->value();
  }

  /// Ends the program with these user outputs.
  std::shared_ptr<ExportedProgram> finish(std::vector<Value*> outputs) {
    std::vector<Argument> arguments(outputs.begin(), outputs.end());
    for (Value* output : outputs) {
      program_->signature.outputs.push_back({OutputSpec::Kind::kUserOutput, output, {}});
      expected_.push_back(values_.at(output).toTensor().clone());
    }
    program_->graph->set_outputs(std::move(arguments));
    program_->out_spec = TreeSpec::tuple(std::vector<TreeSpec>(outputs.size()));
    return program_;
  }

  const ExportedProgram& program() const { return *program_; }
  /// Results of the eager run, in order of the outputs.
  const std::vector<at::Tensor>& expected() const { return expected_; }
  /// The real tensor behind a value, as the calls so far left it.
  at::Tensor tensor(const Value* value) const { return values_.at(value).toTensor(); }
  /// Copies of the sample inputs as they were before any call.
  std::vector<at::Tensor> fresh_inputs() const {
    std::vector<at::Tensor> copies;
    for (const at::Tensor& sample : samples_) {
      copies.push_back(sample.clone());
    }
    return copies;
  }

 private:
  Value* placeholder(InputSpec::Kind kind, std::string_view name, std::string_view target, at::Tensor sample) {
    Value* value = program_->graph->add_placeholder(name);
    program_->signature.inputs.push_back({kind, value->name(), std::string(target), true, {}});
    if (kind == InputSpec::Kind::kUserInput) {
      samples_.push_back(sample.clone());
    }
    set(value, std::move(sample));
    return value;
  }

  void set(Value* value, at::Tensor tensor) {
    TensorMeta& meta = value->meta();
    meta.dtype = tensor.scalar_type();
    meta.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    meta.strides.assign(tensor.strides().begin(), tensor.strides().end());
    meta.storage_offset = tensor.storage_offset();
    values_[value] = std::move(tensor);
  }

  void add_output(Node* node, c10::IValue result) {
    Graph& graph = *program_->graph;
    if (result.isTensor()) {
      set(graph.add_output(node), result.toTensor());
    } else if (result.isTensorList()) {
      Value* list = graph.add_output(node, Value::Kind::kTensorList);
      for (const at::Tensor& tensor : result.toTensorVector()) {
        set(graph.add_element(list), tensor);
      }
      values_[list] = std::move(result);
    } else {
      Value* number = graph.add_output(node, result.isInt()      ? Value::Kind::kSymInt
                                             : result.isDouble() ? Value::Kind::kSymFloat
                                                                 : Value::Kind::kSymBool);
      if (result.isInt()) {
        number->sym() = result.toInt();
      }
      values_[number] = std::move(result);
    }
  }

  std::shared_ptr<ExportedProgram> program_ = std::make_shared<ExportedProgram>();
  std::unordered_map<const Value*, c10::IValue> values_;
  std::vector<at::Tensor> samples_;
  std::vector<at::Tensor> expected_;
};

}  // namespace exporters
