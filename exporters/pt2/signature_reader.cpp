#include "exporters/pt2/signature_reader.h"

#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <unordered_map>

namespace exporters::pt2 {
namespace {

using InputKind = InputSpec::Kind;
using OutputKind = OutputSpec::Kind;

/// A kind of input that stands for a tensor with a name of its own.
struct StateField {
  InputKind kind;
  std::string_view target;
};
const std::unordered_map<std::string_view, StateField>& state_fields() {
  static const std::unordered_map<std::string_view, StateField> table = {
      {"parameter", {InputKind::kParameter, "parameter_name"}},
      {"buffer", {InputKind::kBuffer, "buffer_name"}},
      {"tensor_constant", {InputKind::kTensorConstant, "tensor_constant_name"}},
  };
  return table;
}

/// `target`: the field that names what is written to; empty for none.
struct OutputField {
  OutputKind kind;
  std::string_view target;
};
const std::unordered_map<std::string_view, OutputField>& output_fields() {
  static const std::unordered_map<std::string_view, OutputField> table = {
      {"loss_output", {OutputKind::kLossOutput, ""}},
      {"buffer_mutation", {OutputKind::kBufferMutation, "buffer_name"}},
      {"parameter_mutation", {OutputKind::kParameterMutation, "parameter_name"}},
      {"user_input_mutation", {OutputKind::kUserInputMutation, "user_input_name"}},
  };
  return table;
}

// The placeholder, by the name that the file gives it.
std::string placeholder_name(const Json& argument, const GraphReader& graph) {
  return graph.value(as_text(member(argument, "name")))->name();
}

InputSpec read_input(const Json& json, GraphReader& graph, const Value& placeholder) {
  InputSpec spec;
  spec.name = placeholder.name();
  const Tagged input = as_union(json);
  if (input.tag == "user_input") {
    const Argument argument = graph.argument(member(input.value, "arg"));
    if (!argument.is_value()) {  // before schema 8.2 constants were user inputs too
      spec.kind = InputKind::kConstantInput;
      spec.constant = argument;
    }
    return spec;
  }
  if (input.tag == "constant_input") {
    spec.kind = InputKind::kConstantInput;
    spec.constant = graph.argument(member(input.value, "value"));
    ensure(!spec.constant.is_value() && !spec.constant.is_list(), "is a constant of an unknown kind");
    return spec;
  }
  if (input.tag == "token") {
    spec.kind = InputKind::kToken;
    return spec;
  }
  if (input.tag == "custom_obj") {
    fail("is the custom object {}, which only a pickle holds; it cannot be read",
         quote(as_text(member(input.value, "custom_obj_name"))));
  }
  const auto state = state_fields().find(input.tag);
  ensure(state != state_fields().end(), "is of the unknown kind {}", quote(input.tag));
  spec.kind = state->second.kind;
  spec.target = as_text(member(input.value, state->second.target));
  if (spec.kind == InputKind::kBuffer) {
    spec.persistent = as_bool(member(input.value, "persistent"));
  }
  const std::string named = placeholder_name(member(input.value, "arg"), graph);
  ensure(named == spec.name, "is {} in the signature, {} in the graph", quote(named), quote(spec.name));
  return spec;
}

OutputSpec read_output(const Json& json, GraphReader& graph) {
  OutputSpec spec;
  const Tagged output = as_union(json);
  if (output.tag == "user_output") {
    spec.argument = graph.argument(member(output.value, "arg"));
    return spec;
  }
  if (output.tag == "gradient_to_parameter" || output.tag == "gradient_to_user_input") {
    throw Error("is a gradient: this is a training step", {}, "Export the model in evaluation mode, without a loss.");
  }
  spec.argument = graph.value(as_text(member(member(output.value, "arg"), "name")));
  if (output.tag == "token") {
    spec.kind = OutputKind::kToken;
    return spec;
  }
  const auto field = output_fields().find(output.tag);
  ensure(field != output_fields().end(), "is of the unknown kind {}", quote(output.tag));
  spec.kind = field->second.kind;
  if (!field->second.target.empty()) {
    spec.target = as_text(member(output.value, field->second.target));
  }
  if (spec.kind == OutputKind::kUserInputMutation) {
    spec.target = graph.value(spec.target)->name();
  }
  return spec;
}

template <typename Read>
auto with_place(std::string_view what, size_t index, Read&& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw error.with_context(fmt::format("{} {} of the signature", what, index));
  }
}

}  // namespace

std::vector<std::string> constant_input_names(const Json& signature) {
  std::vector<std::string> names;
  for (const Json& json : as_array(member(signature, "input_specs"))) {
    const Tagged input = as_union(json);
    const Json* name = input.tag == "constant_input" ? find_member(input.value, "name") : nullptr;
    names.push_back(name == nullptr ? std::string() : as_text(*name));
  }
  return names;
}

GraphSignature read_signature(const Json& signature, GraphReader& graph, const Graph& target) {
  const auto& inputs = as_array(member(signature, "input_specs"));
  const std::vector<Value*> placeholders = target.placeholders();
  ensure(inputs.size() == placeholders.size(), "The signature has {} inputs, the graph has {}", inputs.size(),
         placeholders.size());
  GraphSignature result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    result.inputs.push_back(with_place("input", i, [&] { return read_input(inputs[i], graph, *placeholders[i]); }));
  }
  for (const Json& output : as_array(member(signature, "output_specs"))) {
    result.outputs.push_back(with_place("output", result.outputs.size(), [&] { return read_output(output, graph); }));
  }
  return result;
}

}  // namespace exporters::pt2
