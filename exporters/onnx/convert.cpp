#include "exporters/onnx/convert.h"

#include "exporters/graph/calls.h"
#include "exporters/onnx/index_limits.h"
#include "exporters/onnx/size_conditions.h"
#include "exporters/onnx/translations/cache_states.h"
#include "exporters/onnx/translations/translate.h"
#include "exporters/support/error.h"
#include "exporters/support/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

namespace exporters::onnx {
namespace {

std::string module_path(const Node& node) {
  const std::string& path = node.module_stack().empty() ? node.place().module_path : node.module_stack().back().path;
  return path.empty() ? "the root module" : path;
}

// ── Names of inputs and outputs ──

bool is_user(const InputSpec& spec) { return spec.kind == InputSpec::Kind::kUserInput; }

class InterfaceNames {
 public:
  explicit InterfaceNames(const ExportedProgram& program) {
    for (const LeafInfo& leaf : program.input_leaves()) {
      inputs_[leaf.placeholder] = leaf.path;
    }
    for (const LeafInfo& leaf : program.output_leaves()) {
      output_paths_.push_back(leaf.path);
    }
    for (const auto& [placeholder, path] : inputs_) {
      input_paths_.insert(path);
    }
    for (const std::string& path : output_paths_) {
      if (input_paths_.contains(path)) {
        shared_.insert(path);
      }
    }
  }

  std::string input_path(const std::string& placeholder) const {
    const auto found = inputs_.find(placeholder);
    return found == inputs_.end() || found->second.empty() ? placeholder : found->second;
  }
  std::string input(const std::string& placeholder) const {
    const std::string path = input_path(placeholder);
    return shared_.contains(path) ? "input." + path : path;
  }
  /// `index` counts user outputs.
  std::string output(size_t index) const {
    const std::string path = index < output_paths_.size() ? output_paths_[index] : std::to_string(index);
    if (path.empty()) {
      return "output";
    }
    if (std::isdigit(static_cast<unsigned char>(path[0])) != 0) {
      return "output." + path;  // a tuple's items
    }
    return shared_.contains(path) ? "output." + path : path;
  }

 private:
  std::unordered_map<std::string, std::string> inputs_;  // placeholder → path
  std::vector<std::string> output_paths_;
  std::set<std::string> input_paths_;
  std::set<std::string> shared_;
};

// ── Names of axes ──

// A size that follows from others has a name of its own too, where its axis has one, and the model says how it follows:
// the length of a cache is "past", with past + sequence = total.
class AxisNames {
 public:
  AxisNames(const ExportedProgram& program, const OnnxOptions& options, const InterfaceNames& names) {
    for (const auto& [symbol, name] : program.dim_names) {
      take(Expr(Symbol(symbol)), name, symbol);
    }
    for (const bool of_symbols : {true, false}) {  // a symbol is named first
      for (const InputSpec& spec : program.signature.inputs) {
        const std::string path = names.input_path(spec.name);
        const auto wanted = options.axis_names.find(path);
        const Value* value = is_user(spec) ? program.graph->find(spec.name) : nullptr;
        if (wanted != options.axis_names.end() && value != nullptr && value->is_tensor()) {
          name_axes(value->meta().sizes, path, wanted->second, of_symbols);
        }
      }
    }
  }

  OnnxDim dim(const Expr& expr) const {
    if (const auto number = expr.as_int()) {
      return *number;
    }
    const auto named = names_.find(expr);
    return named != names_.end() ? named->second : expr.substitute(renaming()).str();
  }

  BoolExpr condition(const BoolExpr& condition) const { return condition.substitute(renaming()); }

  /// What the names of sizes that follow from others stand for.
  std::vector<BoolExpr> definitions() const {
    std::vector<BoolExpr> result;
    for (const auto& [name, size] : computed_) {
      result.push_back(eq(Expr(Symbol(name)), size.substitute(renaming())));
    }
    return result;
  }

 private:
  Substitution renaming() const {
    return [this](Symbol symbol) -> std::optional<Expr> {
      const auto name = names_.find(Expr(symbol));
      return name == names_.end() ? std::nullopt : std::optional<Expr>(Expr(Symbol(name->second)));
    };
  }

  void name_axes(const Sizes& sizes, const std::string& path, const std::map<int64_t, std::string>& wanted,
                 bool of_symbols) {
    for (const auto& [axis, name] : wanted) {
      const bool there = axis >= 0 && axis < static_cast<int64_t>(sizes.size());
      const Expr size = there ? sizes[static_cast<size_t>(axis)] : Expr(0);
      if (!size.is_int() && size.as_symbol().has_value() == of_symbols) {
        take(size, name, path + "_" + name);
      }
    }
  }

  // Two sizes never share a name: equal names mean equal sizes.
  void take(const Expr& size, const std::string& name, const std::string& otherwise) {
    if (names_.contains(size)) {
      return;
    }
    std::string free = taken_.contains(name) ? otherwise : name;
    std::replace(free.begin(), free.end(), '.', '_');
    if (!taken_.insert(free).second) {
      return;
    }
    names_.emplace(size, free);
    if (!size.as_symbol()) {
      computed_.emplace(free, size);
    }
  }

  std::unordered_map<Expr, std::string> names_;
  std::map<std::string, Expr> computed_;  // name → what it follows from
  std::set<std::string> taken_;
};

// ── The conversion ──

class Converter {
 public:
  Converter(const ExportedProgram& program, const OnnxOptions& options)
      : program_(program),
        options_(options),
        names_(program),
        axes_(program, options, names_),
        context_(program, options.opset, options.ort_fusions) {}

  OnnxModel run() {
    refuse_state_updates();
    refuse_missing_translations();
    add_inputs();
    translate_nodes(context_, *program_.graph);
    add_outputs();
    warn_of_missing_kernels();
    if (options_.describe_values) {
      describe_values();
    }
    rename_values(context_.graph(), renamed_);  // names are unique over all graphs
    remove_dead_nodes(context_.graph());
    return finish();
  }

 private:
  void refuse_state_updates() const;
  void refuse_missing_translations() const;
  void add_inputs();
  void add_outputs();
  SizeConditions size_conditions() const;
  IndexLimits index_limits() const;
  void add_output(const Value* value, const std::string& name);
  void warn_of_missing_kernels() const;
  void describe_values();
  OnnxModel finish();
  OnnxValueInfo info(const std::string& name, const Value* value) const;

  const ExportedProgram& program_;
  const OnnxOptions& options_;
  InterfaceNames names_;
  AxisNames axes_;
  TranslationContext context_;
  std::unordered_map<std::string, std::string> renamed_;  // inner name → output name
};

void Converter::refuse_state_updates() const {
  for (const OutputSpec& output : program_.signature.outputs) {
    if (output.kind == OutputSpec::Kind::kBufferMutation || output.kind == OutputSpec::Kind::kParameterMutation) {
      throw Error(
          fmt::format("the forward updates '{}', and an ONNX graph has no state to keep the update in", output.target),
          "ONNX conversion",
          "Call eval() on the module, or return the new value as an output and pass it in as an input.");
    }
  }
}

void Converter::refuse_missing_translations() const {
  std::map<std::string, std::set<std::string>> missing;  // op → module paths
  for_each_call(*program_.graph, [&](const Node& node) {
    if (needs_translation(node) && find_onnx_translation(node.target(), options_.opset) == nullptr) {
      missing[node.target()].insert(module_path(node));
    }
  });
  if (missing.empty()) {
    return;
  }
  std::vector<std::string> lines;
  for (const auto& [op, paths] : missing) {
    lines.push_back(fmt::format("{} (in {})", op, fmt::join(paths, ", ")));
  }
  throw Error(fmt::format("no ONNX translation at opset {} for {}", options_.opset, fmt::join(lines, "; ")),
              "ONNX conversion", "Register one with register_onnx_translation(op, opset, function).");
}

OnnxValueInfo Converter::info(const std::string& name, const Value* value) const {
  OnnxValueInfo info;
  info.name = name;
  info.dims.emplace();
  if (!value->is_tensor()) {
    info.dtype = value->kind() == Value::Kind::kSymInt    ? OnnxType::kInt64
                 : value->kind() == Value::Kind::kSymBool ? OnnxType::kBool
                                                          : OnnxType::kDouble;
    return info;
  }
  info.dtype = onnx_type(value->meta().dtype);
  for (const Expr& size : value->meta().sizes) {
    info.dims->push_back(axes_.dim(size));
  }
  return info;
}

void Converter::add_inputs() {
  for (const InputSpec& spec : program_.signature.inputs) {
    const Value* value = program_.graph->find(spec.name);
    if (!is_user(spec) || value == nullptr) {
      continue;
    }
    const std::string name = names_.input(spec.name);
    context_.reserve_name(name);
    context_.graph().inputs.push_back(info(name, value));
    if (value->is_tensor()) {
      context_.bind(value, {name, value->meta().dtype});
    } else if (value->kind() == Value::Kind::kSymInt) {
      if (const auto symbol = value->sym().as_symbol()) {
        context_.declare_symbol(*symbol, {name, c10::kLong});
      }
    }
  }
  if (options_.ort_fusions) {
    free_lengths_of_caches(context_);
  }
  for (size_t i = 0; i < program_.signature.outputs.size(); ++i) {
    context_.reserve_name(names_.output(i));
  }
}

void Converter::add_outputs() {
  size_t index = 0;
  for (const OutputSpec& spec : program_.signature.outputs) {
    if (spec.kind != OutputSpec::Kind::kUserOutput && spec.kind != OutputSpec::Kind::kLossOutput) {
      continue;
    }
    const std::string name = names_.output(index++);
    if (spec.argument.is_value()) {
      add_output(spec.argument.value(), name);
    }
  }
}

// An inner value made by a node takes the output's name; what is an input, an initializer or already an output goes
// through Identity.
void Converter::add_output(const Value* value, const std::string& name) {
  OnnxValue inner = value->kind() == Value::Kind::kSymInt ? context_.size_scalar(value->sym()) : context_.value(value);
  OnnxGraph& graph = context_.graph();
  if (context_.producer(inner) == nullptr || renamed_.contains(inner.name)) {
    graph.nodes.push_back({context_.unique_name("output/" + name), "Identity", "", {inner.name}, {name}, {}});
  } else {
    renamed_[inner.name] = name;
  }
  graph.outputs.push_back(info(name, value));
}

void Converter::warn_of_missing_kernels() const {
  if (!context_.without_kernel().empty()) {
    log_warning("ONNX Runtime's CPU provider does not run {} on float64: export the model as float32 for it",
                fmt::join(context_.without_kernel(), ", "));
  }
}

void Converter::describe_values() {
  std::unordered_set<std::string> described;
  const auto describe = [&](const Value* value) {
    const OnnxValue* bound = value->is_tensor() ? context_.find_bound(value) : nullptr;
    if (bound != nullptr && context_.producer(*bound) != nullptr && described.insert(bound->name).second) {
      context_.graph().value_info.push_back(info(bound->name, value));
    }
  };
  for (const Node& node : *program_.graph) {
    for (const Value* output : node.outputs()) {
      describe(output);
      std::for_each(output->elements().begin(), output->elements().end(), describe);
    }
  }
}

OnnxModel Converter::finish() {
  OnnxModel model;
  model.ir_version = ir_version_for_opset(options_.opset);
  model.opsets = {{"", options_.opset}};
  model.producer_name = "exporters.cpp";
  model.producer_version = options_.producer_version;
  if (!program_.module_class.empty()) {
    model.metadata.emplace_back("module_class", program_.module_class);
  }
  model.metadata.emplace_back(kSizeConditionsKey, size_conditions().to_metadata());
  if (const IndexLimits limits = index_limits(); !limits.empty()) {
    model.metadata.emplace_back(kIndexLimitsKey, to_metadata(limits));
  }
  model.graph = std::move(context_.graph());
  model.import_contrib_domain();
  return model;
}

// Ranges and guards of the program, over the names that its axes have in the model.
SizeConditions Converter::size_conditions() const {
  std::vector<BoolExpr> conditions;
  for (const auto& [name, range] : program_.range_constraints) {
    const Expr symbol{Symbol(name)};
    if (range.min > 0) {
      conditions.push_back(axes_.condition(ge(symbol, range.min)));
    }
    if (range.max != Range::kMax) {
      conditions.push_back(axes_.condition(le(symbol, range.max)));
    }
  }
  for (const Guard& guard : program_.guards) {
    conditions.push_back(axes_.condition(guard.condition));
  }
  for (const BoolExpr& requirement : context_.requirements()) {
    conditions.push_back(axes_.condition(requirement));
  }
  for (const BoolExpr& definition : axes_.definitions()) {
    conditions.push_back(definition);
  }
  return SizeConditions(std::move(conditions));
}

// By the names that the inputs have in the model.
IndexLimits Converter::index_limits() const {
  IndexLimits by_path = embedding_limits(program_);
  for (const auto& [path, limit] : options_.index_limits) {
    by_path.insert_or_assign(path, limit);
  }
  IndexLimits limits;
  for (const InputSpec& spec : program_.signature.inputs) {
    const auto found = is_user(spec) ? by_path.find(names_.input_path(spec.name)) : by_path.end();
    if (found != by_path.end()) {
      limits.emplace(names_.input(spec.name), found->second);
    }
  }
  return limits;
}

}  // namespace

OnnxModel to_onnx(const ExportedProgram& program, const OnnxOptions& options) {
  ir_version_for_opset(options.opset);
  return Converter(program, options).run();
}

}  // namespace exporters::onnx
