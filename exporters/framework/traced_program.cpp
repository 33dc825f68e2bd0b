#include "exporters/framework/traced_program.h"

#include "exporters/graph/calls.h"
#include "exporters/graph/dtype.h"
#include "exporters/support/error.h"
#include "exporters/support/version.h"

#include <ATen/ops/empty.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace exporters {
namespace {

bool is_user_leaf(const InputSpec& spec) {
  return spec.kind == InputSpec::Kind::kUserInput || spec.kind == InputSpec::Kind::kConstantInput;
}

std::vector<const InputSpec*> user_leaves(const ExportedProgram& program) {
  std::vector<const InputSpec*> leaves;
  for (const InputSpec& spec : program.signature.inputs) {
    if (is_user_leaf(spec)) {
      leaves.push_back(&spec);
    }
  }
  return leaves;
}

// ── Positional arguments by name ──

// Of the argument whose first leaf has this placeholder: the tail that the leaf's path makes is taken off.
std::string argument_name(const TreeSpec& argument, const std::string& first_placeholder) {
  if (argument.is_leaf()) {
    return first_placeholder;
  }
  std::string tail = "_" + argument.leaf_paths().front();
  std::replace(tail.begin(), tail.end(), '.', '_');
  return first_placeholder.ends_with(tail) ? first_placeholder.substr(0, first_placeholder.size() - tail.size())
                                           : first_placeholder;
}

// ── What export.json says ──

// The size at the sample; where that is not known, the smallest that the range allows.
int64_t sample_size(const ExportedProgram& program, const Expr& size) {
  return size.evaluate([&](Symbol symbol) {
    if (const auto hint = program.hints.find(symbol.name()); hint != program.hints.end()) {
      return hint->second;
    }
    const auto range = program.range_constraints.find(symbol.name());
    return range == program.range_constraints.end() ? int64_t{1} : std::max<int64_t>(1, range->second.min);
  });
}

PyTree::Leaf sample_leaf(const ExportedProgram& program, const InputSpec& spec) {
  const Value* placeholder = program.graph->find(spec.name);
  if (spec.kind == InputSpec::Kind::kConstantInput || placeholder == nullptr) {
    return constant_leaf(spec.constant);
  }
  if (!placeholder->is_tensor()) {
    return sample_size(program, placeholder->sym());
  }
  std::vector<int64_t> sizes;
  for (const Expr& size : placeholder->meta().sizes) {
    sizes.push_back(sample_size(program, size));
  }
  return at::empty(sizes, at::TensorOptions().dtype(placeholder->meta().dtype).device(at::kMeta));
}

// By name, in the order of in_spec: tensors without data.
NamedInputs sample_inputs(const ExportedProgram& program) {
  std::vector<PyTree::Leaf> leaves;
  for (const InputSpec* spec : user_leaves(program)) {
    leaves.push_back(sample_leaf(program, *spec));
  }
  const PyTree call = PyTree::unflatten(program.in_spec, std::move(leaves));
  const std::vector<std::string> names = program.in_spec.children[1].keys();
  NamedInputs inputs;
  for (size_t i = 0; i < names.size(); ++i) {
    inputs.emplace_back(names[i], call.children()[1].children()[i]);
  }
  return inputs;
}

const StateTensor* first_floating(const ExportedProgram& program) {
  for (const InputSpec& spec : program.signature.inputs) {
    const auto state = program.state.find(spec.target);
    if (spec.kind == InputSpec::Kind::kParameter && state != program.state.end() &&
        c10::isFloatingType(state->second.tensor.scalar_type())) {
      return &state->second;
    }
  }
  return nullptr;
}

// ── What a person reads ──

class Describer {
 public:
  explicit Describer(const ExportedProgram& program) : program_(program) {}

  ProgramDescription run() const {
    ProgramDescription description;
    for (const LeafInfo& leaf : program_.input_leaves()) {
      description.inputs.push_back(value(leaf));
    }
    for (const LeafInfo& leaf : program_.output_leaves()) {
      description.outputs.push_back(value(leaf));
    }
    add_conditions(description.conditions);
    for_each_call(*program_.graph, [&](const Node& call) { ++description.ops[call.target()]; });
    add_facts(description.facts);
    return description;
  }

 private:
  std::string text(const Expr& expr) const { return expr.substitute(renaming()).str(); }

  Substitution renaming() const {
    return [this](Symbol symbol) -> std::optional<Expr> {
      const auto name = program_.dim_names.find(symbol.name());
      return name == program_.dim_names.end() ? std::nullopt : std::optional(Expr(Symbol(name->second)));
    };
  }

  ValueDescription value(const LeafInfo& leaf) const {
    ValueDescription result{leaf.path.empty() ? "output" : leaf.path, "constant", {}};
    const Value* found = leaf.placeholder.empty() ? nullptr : program_.graph->find(leaf.placeholder);
    if (found != nullptr && found->is_tensor()) {
      result.dtype = std::string(dtype_name(found->meta().dtype));
      for (const Expr& size : found->meta().sizes) {
        result.dims.push_back(text(size));
      }
    } else if (found != nullptr) {
      result.dtype = found->kind() == Value::Kind::kSymInt ? "int" : "number";
    }
    return result;
  }

  // The bounds that say something: every size is at least 0.
  void add_conditions(std::vector<std::string>& conditions) const {
    for (const auto& [name, range] : program_.range_constraints) {
      const std::string symbol = text(Expr(Symbol(name)));
      if (range.min > 0) {
        conditions.push_back(symbol + " >= " + std::to_string(range.min));
      }
      if (range.max != Range::kMax) {
        conditions.push_back(symbol + " <= " + std::to_string(range.max));
      }
    }
    for (const Guard& guard : program_.guards) {
      const std::string condition = guard.condition.substitute(renaming()).str();
      if (std::find(conditions.begin(), conditions.end(), condition) == conditions.end()) {
        conditions.push_back(condition);
      }
    }
  }

  void add_facts(std::vector<std::pair<std::string, std::string>>& facts) const {
    if (!program_.module_class.empty()) {
      facts.emplace_back("module", program_.module_class);
    }
    constexpr std::pair<InputSpec::Kind, const char*> kKinds[] = {{InputSpec::Kind::kParameter, "parameters"},
                                                                  {InputSpec::Kind::kBuffer, "buffers"},
                                                                  {InputSpec::Kind::kTensorConstant, "constants"}};
    for (const auto& [kind, name] : kKinds) {
      const auto count = std::count_if(program_.signature.inputs.begin(), program_.signature.inputs.end(),
                                       [kind = kind](const InputSpec& spec) { return spec.kind == kind; });
      if (count > 0) {
        facts.emplace_back(name, std::to_string(count));
      }
    }
  }

  const ExportedProgram& program_;
};

}  // namespace

void name_positional_arguments(ExportedProgram& program) {
  const bool is_call = program.in_spec.children.size() == 2 && program.in_spec.children[1].type == "builtins.dict";
  ensure(is_call, "the program's in_spec is no call: (arguments, keyword arguments)");
  const std::vector<const InputSpec*> leaves = user_leaves(program);
  ensure(program.in_spec.leaf_count() == leaves.size(), "in_spec has {} leaves, the signature {} user inputs",
         program.in_spec.leaf_count(), leaves.size());
  const TreeSpec args = program.in_spec.children[0];
  if (args.children.empty()) {
    return;
  }
  std::vector<std::string> names;
  std::vector<TreeSpec> children;
  size_t leaf = 0;
  for (const TreeSpec& argument : args.children) {
    const size_t count = argument.leaf_count();
    names.push_back(count == 0 ? "argument_" + std::to_string(names.size())
                               : argument_name(argument, leaves[leaf]->name));
    children.push_back(argument);
    leaf += count;
  }
  const TreeSpec& kwargs = program.in_spec.children[1];
  for (const std::string& key : kwargs.keys()) {
    names.push_back(key);
  }
  children.insert(children.end(), kwargs.children.begin(), kwargs.children.end());
  program.in_spec = TreeSpec::tuple({TreeSpec::tuple({}), TreeSpec::dict(names, std::move(children))});
}

TracedModel traced_model(std::shared_ptr<ExportedProgram> program) {
  name_positional_arguments(*program);
  TracedModel traced;
  traced.metadata.architecture = program->module_class;
  traced.metadata.packages = {{"exporters.cpp", std::string(version())}, {"torch", TORCH_VERSION}};
  if (const StateTensor* parameter = first_floating(*program)) {
    traced.metadata.export_dtype = std::string(dtype_name(parameter->tensor.scalar_type()));
    traced.metadata.export_device = parameter->tensor.device().str();
  }
  describe_inputs(traced.metadata, sample_inputs(*program));
  traced.metadata.out_spec = program->out_spec;
  traced.program = std::move(program);
  return traced;
}

ProgramDescription describe_traced_program(const ExportedProgram& program) { return Describer(program).run(); }

}  // namespace exporters
