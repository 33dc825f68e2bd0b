#include "exporters/graph/exported_program.h"

#include "exporters/graph/print.h"
#include "exporters/support/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace exporters {
namespace {

constexpr std::string_view kInputKinds[] = {"USER_INPUT",     "PARAMETER",  "BUFFER", "CONSTANT_TENSOR",
                                            "CONSTANT_INPUT", "CUSTOM_OBJ", "TOKEN"};
constexpr std::string_view kOutputKinds[] = {"USER_OUTPUT",         "LOSS_OUTPUT",        "BUFFER_MUTATION",
                                             "USER_INPUT_MUTATION", "PARAMETER_MUTATION", "TOKEN"};

bool is_user_leaf(const InputSpec& spec) {
  return spec.kind == InputSpec::Kind::kUserInput || spec.kind == InputSpec::Kind::kConstantInput;
}

bool is_user_leaf(const OutputSpec& spec) {
  return spec.kind == OutputSpec::Kind::kUserOutput || spec.kind == OutputSpec::Kind::kLossOutput;
}

// What people call the leaves of (args tuple, kwargs dict): the path in the kwargs; nothing for positional ones, which
// have a name in the graph only.
std::vector<std::string> input_paths(const TreeSpec& in_spec, size_t leaves) {
  const bool is_call = in_spec.children.size() == 2 && in_spec.children[1].type == "builtins.dict";
  if (!is_call) {
    return std::vector<std::string>(leaves);
  }
  std::vector<std::string> paths(in_spec.children[0].leaf_count());
  for (std::string& path : in_spec.children[1].leaf_paths()) {
    paths.push_back(std::move(path));
  }
  ensure(paths.size() == leaves, "in_spec has {} leaves, the signature {} user inputs", paths.size(), leaves);
  return paths;
}

std::string signature_text(const GraphSignature& signature) {
  std::string text = "Inputs:\n";
  for (const InputSpec& input : signature.inputs) {
    text += fmt::format("    {}: {}", input.name, kInputKinds[static_cast<size_t>(input.kind)]);
    text += input.target.empty() ? "" : fmt::format(" target='{}'", input.target);
    text += input.kind == InputSpec::Kind::kBuffer ? fmt::format(" persistent={}", input.persistent) : "";
    text += input.kind == InputSpec::Kind::kConstantInput ? " = " + to_text(input.constant) : "";
    text += "\n";
  }
  text += "Outputs:\n";
  for (const OutputSpec& output : signature.outputs) {
    text += fmt::format("    {}: {}", to_text(output.argument), kOutputKinds[static_cast<size_t>(output.kind)]);
    text += output.target.empty() ? "\n" : fmt::format(" target='{}'\n", output.target);
  }
  return text;
}

}  // namespace

const InputSpec* GraphSignature::find_input(std::string_view placeholder) const {
  const auto found =
      std::find_if(inputs.begin(), inputs.end(), [&](const InputSpec& input) { return input.name == placeholder; });
  return found == inputs.end() ? nullptr : &*found;
}

std::vector<std::string> GraphSignature::user_inputs() const {
  std::vector<std::string> names;
  for (const InputSpec& input : inputs) {
    if (input.kind == InputSpec::Kind::kUserInput) {
      names.push_back(input.name);
    }
  }
  return names;
}

ExportedProgram::ExportedProgram() : graph(std::make_shared<Graph>()) {}

std::vector<LeafInfo> ExportedProgram::input_leaves() const {
  std::vector<const InputSpec*> specs;
  for (const InputSpec& spec : signature.inputs) {
    if (is_user_leaf(spec)) {
      specs.push_back(&spec);
    }
  }
  const std::vector<std::string> paths = input_paths(in_spec, specs.size());
  std::vector<LeafInfo> leaves;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i]->kind == InputSpec::Kind::kUserInput) {
      leaves.push_back({paths[i].empty() ? specs[i]->name : paths[i], specs[i]->name});
    }
  }
  return leaves;
}

std::vector<LeafInfo> ExportedProgram::output_leaves() const {
  const std::vector<std::string> paths = out_spec.leaf_paths();
  std::vector<LeafInfo> leaves;
  for (const OutputSpec& spec : signature.outputs) {
    if (is_user_leaf(spec)) {
      ensure(leaves.size() < paths.size(), "The program has more user outputs than the {} leaves of its out_spec",
             paths.size());
      const auto* value = spec.argument.get_if<Value*>();
      leaves.push_back({paths[leaves.size()], value == nullptr ? std::string() : (*value)->name()});
    }
  }
  ensure(leaves.size() == paths.size(), "out_spec has {} leaves, the signature {} user outputs", paths.size(),
         leaves.size());
  return leaves;
}

std::string ExportedProgram::str() const {
  std::string text = graph->str() + "\n" + signature_text(signature);
  text += "Ranges:\n";
  for (const auto& [symbol, range] : range_constraints) {
    text += fmt::format("    {}: {}\n", symbol, range.str());
  }
  text += "Guards:\n";
  for (const Guard& guard : guards) {
    const std::string place = guard.place.str();
    text += fmt::format("    {}{}\n", guard.condition.str(), place.empty() ? "" : "  # " + place);
  }
  return text;
}

}  // namespace exporters
