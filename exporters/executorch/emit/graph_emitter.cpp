#include "exporters/executorch/emit/graph_emitter.h"

#include "exporters/executorch/edge/kernels.h"
#include "exporters/executorch/emit/control_flow.h"
#include "exporters/executorch/emit/value_uses.h"
#include "exporters/graph/node_check.h"
#include "exporters/graph/op_name.h"

#include <algorithm>

namespace exporters::executorch {
namespace {

constexpr std::string_view kView = "aten.view_copy.default";

}  // namespace

// ── What graphs have in common ──

void MethodContext::copy(int32_t from, int32_t to) { method.call("aten::clone", "out", {from, plain.none(), to, to}); }

int32_t MethodContext::clone(int32_t source) {
  TensorValue tensor = *method.tensor(source);
  tensor.constant.reset();
  tensor.name.clear();
  const int32_t result = method.add(std::move(tensor));
  copy(source, result);
  return result;
}

// ── Calls ──

void GraphEmitter::run() {
  for (const ScheduledStep& step : delegation_.steps) {
    if (const auto* node = std::get_if<const Node*>(&step)) {
      emit(**node);
    } else {
      emit(delegation_.partitions[std::get<size_t>(step)]);
    }
  }
}

void GraphEmitter::emit(const Node& node) {
  if (edge_.call(node) != nullptr) {
    emit_control_flow(edge_, node, delegation_.branches.at(&node), table_, context_);
    return;
  }
  if (node.is_call(kView)) {
    emit_view(node);
    return;
  }
  if (const std::string_view kernel = find_sym_kernel(node.target()); !kernel.empty()) {
    emit_sym(node, kernel);
    return;
  }
  const Kernel* kernel = find_kernel(node);
  ensure_at(node, kernel != nullptr, ": ExecuTorch has no kernel for it");
  emit_kernel(node, *kernel);
}

void GraphEmitter::emit_sym(const Node& node, std::string_view kernel) {
  std::vector<int32_t> args;
  for (const Argument& argument : node.args()) {
    args.push_back(table_.index(argument));
  }
  args.push_back(table_.add_result(*node.value()));
  const size_t dot = kernel.find('.');
  method_.call(kernel.substr(0, dot), dot == std::string_view::npos ? std::string_view() : kernel.substr(dot + 1),
               std::move(args));
}

// Every argument of the schema, outs included, then the results again: several as a list of tensors.
void GraphEmitter::emit_kernel(const Node& node, const Kernel& kernel) {
  const std::vector<const Argument*> bound = bind_arguments(node, lookup_operator(node.target()).schema());
  const c10::FunctionSchema& op = lookup_operator(node.target()).schema();
  std::vector<int32_t> args;
  std::vector<int32_t> outs;
  for (const c10::Argument& formal : kernel.schema->arguments()) {
    if (formal.alias_info() != nullptr && formal.alias_info()->isWrite()) {
      outs.push_back(table_.add_result(*node.output(outs.size())));
      args.push_back(outs.back());
    } else {
      const auto position = op.argumentIndexWithName(formal.name());
      args.push_back(table_.argument(node, position ? bound[static_cast<size_t>(*position)] : nullptr, formal));
    }
  }
  args.push_back(outs.size() == 1 ? outs.front() : method_.add(TensorList{outs}));
  method_.call(kernel.name, kernel.overload, std::move(args));
}

// ── Views ──

// Memory that is planned has its place before the program runs, so a view of fixed sizes is a second value there. Which
// values will be outputs, a graph inside the method does not know.
bool GraphEmitter::is_planned(int32_t value) const {
  const auto base = context_.memory.aliases.find(value);
  const int32_t root = base == context_.memory.aliases.end() ? value : base->second;
  const bool is_input = std::find(method_.inputs.begin(), method_.inputs.end(), root) != method_.inputs.end();
  return !context_.run_time_views.contains(root) && !context_.memory.state.contains(root) &&
         context_.options.plan_outputs && (context_.options.plan_inputs || !is_input);
}

void GraphEmitter::emit_view(const Node& node) {
  const Value& input = *node.arg(0).value();
  const int32_t base = table_.index(input);
  if (edge_.is_output(*node.output())) {
    emit_kernel(node, *find_kernel(node));  // the caller's memory, or planned apart from what else there is
    return;
  }
  TensorValue view = largest_tensor(edge_, *node.output());
  const TensorValue& shown = *method_.tensor(base);
  const bool both_fixed = is_static(node.output()->meta()) && shown.dynamism == ShapeDynamism::kStatic;
  const bool is_constant = shown.constant && !context_.memory.state.contains(base);
  if (is_constant) {
    view.constant = shown.constant;
    table_.bind(*node.output(), method_.add(std::move(view)));
    return;
  }
  const int32_t result = method_.add(std::move(view));
  table_.bind(*node.output(), result);
  if (both_fixed && is_planned(base)) {
    const auto root = context_.memory.aliases.find(base);
    context_.memory.aliases.emplace(result, root == context_.memory.aliases.end() ? base : root->second);
    return;
  }
  context_.run_time_views.insert(result);
  method_.call(kViewKernel, "default", {base, table_.integers(node, node.arg(1)), result});
}

// ── Delegates ──

void GraphEmitter::emit(const Partition& partition) {
  std::vector<int32_t> args;
  for (const Value* input : partition.inputs) {
    args.push_back(table_.index(*input));
  }
  for (const Value* output : partition.outputs) {
    args.push_back(table_.add_result(*output));
  }
  const auto delegate = static_cast<int32_t>(method_.delegates.size());
  method_.delegates.push_back(context_.partitioner->lower(partition, edge_, context_.program));
  method_.instructions.emplace_back(DelegateCall{delegate, std::move(args)});
}

}  // namespace exporters::executorch
