// ── Stage 4: Program fixes ──
//
// Rewrites of the whole traced program before it is lowered. To extend: register_fx_program_fix("executorch", fix,
// {.name, .reason, .link}).

#include "exporters/executorch/stages.h"
#include "exporters/graph/deferred_tensor.h"
#include "exporters/passes/fixes.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/log.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace exporters::executorch {
namespace {

// ── Runtime asserts ──

void drop_assertions(Graph& graph) {
  static constexpr auto kAssertions = std::to_array<std::string_view>(
      {"aten._assert_async.default", "aten._assert_async.msg", "aten._assert_scalar.default",
       "aten._assert_tensor_metadata.default", "aten.sym_constrain_range.default",
       "aten.sym_constrain_range_for_size.default"});
  for (Node& node : graph) {
    for (const Argument& argument : node.args()) {
      if (const auto* inner = argument.get_if<GraphArgument>(); inner != nullptr && inner->graph != nullptr) {
        drop_assertions(*inner->graph);
      }
    }
    if (std::find(kAssertions.begin(), kAssertions.end(), node.target()) != kAssertions.end()) {
      graph.erase(&node);
    }
  }
}

void fix_runtime_asserts(ExportedProgram& program) { drop_assertions(*program.graph); }

// ── Ranges ──

// An axis of an input, and a symbol of its size.
struct Axis {
  std::string input;
  int64_t axis = 0;
  Expr size;
  std::string symbol;
};

std::vector<Axis> symbolic_axes_of(const ExportedProgram& program) {
  std::vector<Axis> result;
  for (const LeafInfo& leaf : program.input_leaves()) {
    const Value* value = program.graph->find(leaf.placeholder);
    for (int64_t axis = 0; value != nullptr && value->is_tensor() && axis < value->meta().dim(); ++axis) {
      for (const Symbol symbol : value->meta().sizes[static_cast<size_t>(axis)].free_symbols()) {
        result.push_back({leaf.path, axis, value->meta().sizes[static_cast<size_t>(axis)], symbol.name()});
      }
    }
  }
  return result;
}

// Null where the model names no such axis.
const AxisLabel* label_of(const Axis& axis, const AxisLabels& labels) {
  const auto input = labels.find(axis.input);
  if (input == labels.end()) {
    return nullptr;
  }
  const auto label = input->second.find(axis.axis);
  return label == input->second.end() ? nullptr : &label->second;
}

// What an axis may be called in max_dims; first what says most to a person.
std::vector<std::string> names_of(const Axis& axis, const ExportedProgram& program, const AxisLabels& labels) {
  std::vector<std::string> names;
  if (const auto dim = program.dim_names.find(axis.symbol); dim != program.dim_names.end()) {
    names.push_back(dim->second);
  }
  if (const AxisLabel* label = label_of(axis, labels)) {
    names.push_back(label->name);
  }
  names.push_back(fmt::format("{}.{}", axis.input, axis.axis));
  names.push_back(axis.symbol);
  return names;
}

int64_t label_max(const Axis& axis, const AxisLabels& labels) {
  const AxisLabel* label = label_of(axis, labels);
  return label == nullptr ? Range::kMax : label->max;
}

void limit(ExportedProgram& program, int64_t max, const Axis& axis) {
  Range& range = program.range_constraints[axis.symbol];
  ensure(max >= std::max<int64_t>(range.min, 1),
         "the largest size of axis {} of '{}' is {}, but its size is at least {}", axis.axis, axis.input, max,
         std::max<int64_t>(range.min, 1));
  const auto sample = program.hints.find(axis.symbol);
  ensure(sample == program.hints.end() || sample->second <= max,
         "the largest size of axis {} of '{}' is {}, but its sample has {}", axis.axis, axis.input, max,
         sample == program.hints.end() ? 0 : sample->second);
  range.max = std::min(range.max, max);
  // past + new tokens: neither part says as much as the limit of the sum.
  const BoolExpr whole = le(axis.size, max);
  const bool is_known = std::any_of(program.guards.begin(), program.guards.end(),
                                    [&](const Guard& guard) { return guard.condition == whole; });
  if (!axis.size.as_symbol() && !is_known) {
    program.guards.push_back({whole, {}});
  }
}

void refuse_unknown_names(const MaxDims& max_dims, const std::set<std::string>& used,
                          const std::set<std::string>& known, const std::set<std::string>& elsewhere) {
  for (const auto& [name, max] : max_dims) {
    if (!used.contains(name) && !elsewhere.contains(name)) {
      std::set<std::string> all = known;
      std::copy_if(elsewhere.begin(), elsewhere.end(), std::inserter(all, all.end()),
                   [](const std::string& each) { return !each.empty() && each.find('.') == std::string::npos; });
      throw Error(
          "no axis with a dynamic size is called '" + name + "'", "max_dims",
          all.empty() ? "Every size of this program is fixed." : fmt::format("Axes are: {}.", fmt::join(all, ", ")));
    }
  }
}

}  // namespace

namespace {

// The bytes of a storage that a tensor's elements span, from the first to behind the last.
struct Span {
  const void* storage = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
};

std::optional<Span> span_of(const at::Tensor& tensor) {
  if (!tensor.has_storage() || tensor.numel() == 0 || deferred_conversion(tensor) != nullptr) {
    return std::nullopt;
  }
  int64_t last = 0;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    last += (tensor.size(axis) - 1) * tensor.stride(axis);
  }
  const auto size = static_cast<int64_t>(tensor.itemsize());
  return Span{tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset() * size,
              (tensor.storage_offset() + last + 1) * size};
}

}  // namespace

void refuse_shared_state(const ExportedProgram& program) {
  for (const OutputSpec& spec : program.signature.outputs) {
    if (spec.kind != OutputSpec::Kind::kBufferMutation && spec.kind != OutputSpec::Kind::kParameterMutation) {
      continue;
    }
    const auto written = span_of(program.state.at(spec.target).tensor);
    for (const auto& [name, state] : program.state) {
      const auto other = name == spec.target ? std::nullopt : span_of(state.tensor);
      const bool overlap = written && other && written->storage == other->storage && written->begin < other->end &&
                           other->begin < written->end;
      if (overlap) {
        throw Error("the program writes to '" + spec.target + "', which shares memory with '" + name + "'", {},
                    "ExecuTorch has memory of its own for each: give the module copies of them.");
      }
    }
  }
}

namespace {

// How many positions a model has; 0 where its config does not say. One of several parts has a config for its text.
int64_t positions_of(const JsonField& config) {
  static constexpr auto kFields =
      std::to_array<std::string_view>({"max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len"});
  for (const std::string_view field : kFields) {
    if (config.has(field) && config.at(field).value().is_number_integer()) {
      return config.at(field).as_int();
    }
  }
  const auto text = config.find("text_config");
  return text && text->is_object() && !text->has("text_config") ? positions_of(*text) : 0;
}

}  // namespace

AxisLabels with_positions(AxisLabels labels, const std::string& config_json) {
  static constexpr auto kLengths = std::to_array<std::string_view>({"sequence", "past", "total"});
  if (config_json.empty()) {
    return labels;
  }
  const nlohmann::json document = parse_json(config_json, "config.json");
  const JsonField config(document, "config.json");
  const int64_t positions = positions_of(config);
  for (auto& [input, axes] : labels) {
    for (auto& [axis, label] : axes) {
      const bool is_length = std::find(kLengths.begin(), kLengths.end(), label.name) != kLengths.end();
      if (positions > 0 && is_length && label.max == Range::kMax) {
        label.max = positions;
      }
    }
  }
  return labels;
}

void warn_of_bounds_of_code(const ExportedProgram& program, const AxisLabels& labels, const MaxDims& max_dims) {
  const std::vector<Axis> axes = symbolic_axes_of(program);
  std::set<std::string> told;
  for (const Axis& axis : axes) {
    const Range& range = program.range_constraints.at(axis.symbol);
    const std::vector<std::string> names = names_of(axis, program, labels);
    const bool is_chosen =
        label_of(axis, labels) == nullptr || label_max(axis, labels) != Range::kMax ||
        std::any_of(names.begin(), names.end(), [&](const std::string& name) { return max_dims.contains(name); });
    if (range.max != Range::kMax && !is_chosen && told.insert(axis.symbol).second) {
      log_warning(
          "memory is planned for {} along axis {} of '{}', the most that the model takes: --max-dim {}=N (config "
          "field max_dims) plans for less",
          range.max, axis.axis, axis.input, names.front());
    }
  }
}

void fix_unbounded_ranges(ExportedProgram& program, const AxisLabels& labels, const MaxDims& max_dims,
                          const std::set<std::string>& elsewhere) {
  const std::vector<Axis> axes = symbolic_axes_of(program);
  std::set<std::string> used;
  std::set<std::string> known;
  std::set<std::string> of_inputs;
  for (const Axis& axis : axes) {
    const std::vector<std::string> names = names_of(axis, program, labels);
    known.insert(names.front());
    of_inputs.insert(axis.symbol);
    for (const std::string& name : names) {
      if (const auto max = max_dims.find(name); max != max_dims.end()) {
        used.insert(name);
        limit(program, max->second, axis);
      }
    }
  }
  // Sizes that depend on data belong to no input.
  for (auto& [symbol, range] : program.range_constraints) {
    const auto max = max_dims.find(symbol);
    if (max != max_dims.end() && used.insert(symbol).second) {
      range.max = std::min(range.max, std::max(max->second, range.min));
    }
    if (!of_inputs.contains(symbol)) {
      known.insert(symbol);
    }
  }
  refuse_unknown_names(max_dims, used, known, elsewhere);
  for (const Axis& axis : axes) {
    const bool is_open = program.range_constraints[axis.symbol].max == Range::kMax || !axis.size.as_symbol();
    if (const int64_t max = label_max(axis, labels); is_open && max != Range::kMax) {
      limit(program, max, axis);
    }
  }
  std::string open;
  std::string example;
  std::set<std::string> told;
  for (const Axis& axis : axes) {
    if (program.range_constraints.at(axis.symbol).max != Range::kMax || !told.insert(axis.symbol).second) {
      continue;
    }
    const std::string name = names_of(axis, program, labels).front();
    open += fmt::format("{}axis {} of '{}' ({})", open.empty() ? "" : ", ", axis.axis, axis.input, name);
    example += fmt::format(" --max-dim {}=N", name);
  }
  if (!open.empty()) {
    throw Error("no largest size is known for " + open + ", and ExecuTorch plans memory for the largest sizes", {},
                "Say how long they get:" + example + " (config field max_dims).");
  }
}

void register_program_fixes() {
  register_fx_program_fix("executorch", fix_runtime_asserts,
                          {"fix_runtime_asserts",
                           "ExecuTorch has no assertions; what they assert of sizes are conditions that our runner "
                           "checks."});
}

Stage program_fixes_stage() {
  Stage stage = {4, "Program fixes", "After the trace, the whole program is rewritten once by each of these.",
                 "`register_fx_program_fix(\"executorch\", fix, {name, reason, link})`; see docs/adding_a_fix.md.",
                 program_fix_entries("executorch")};
  stage.entries.push_back({"program fix",
                           "fix_unbounded_ranges",
                           {},
                           "Memory is planned for the largest sizes: each axis gets one from `max_dims`, else from the "
                           "model's config, else the export fails.",
                           "https://github.com/pytorch/executorch/issues/8766"});
  return stage;
}

}  // namespace exporters::executorch
