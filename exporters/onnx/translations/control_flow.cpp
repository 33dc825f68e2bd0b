// Calls of subgraphs: cond is If, while_loop is Loop. What only wraps its subgraph is inlined before (passes).
#include "exporters/graph/higher_order.h"
#include "exporters/onnx/translations/table.h"
#include "exporters/onnx/translations/translate.h"

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

const Sizes kScalar = {};

// A number stands for a 0-d tensor.
c10::ScalarType dtype_of(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kTensor:
      return value.meta().dtype;
    case Value::Kind::kSymInt:
      return c10::kLong;
    case Value::Kind::kSymBool:
      return c10::kBool;
    default:
      return c10::kDouble;
  }
}

const Sizes& sizes_of(const Value& value) { return value.is_tensor() ? value.meta().sizes : kScalar; }

OnnxValue operand(Context& context, const OpCall& call, const Argument& argument) {
  if (argument.is_value() && argument.value()->is_tensor()) {
    return context.value(argument.value());
  }
  const bool is_real =
      argument.is<double>() || (argument.is_value() && argument.value()->kind() == Value::Kind::kSymFloat);
  const bool is_truth =
      argument.is<bool>() || (argument.is_value() && argument.value()->kind() == Value::Kind::kSymBool);
  return call.operand_of(argument, is_truth ? c10::kBool : is_real ? c10::kDouble : c10::kLong);
}

OnnxValues operands(Context& context, const OpCall& call, const std::vector<Argument>& arguments) {
  OnnxValues values;
  for (const Argument& argument : arguments) {
    values.push_back(operand(context, call, argument));
  }
  return values;
}

// The results of If or Loop, with the dtypes that the call's outputs have; numbers among them are known from now on.
OnnxValues results(Context& context, const OpCall& call, OnnxValues values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& output = call.output(i);
    values[i].dtype = dtype_of(output);
    if (const auto symbol = output.kind() == Value::Kind::kSymInt ? output.sym().as_symbol() : std::nullopt) {
      context.declare_symbol(*symbol, values[i]);
    }
  }
  return values;
}

std::shared_ptr<OnnxGraph> branch(Context& context, const OpCall& call, const GraphArgument& graph,
                                  const OnnxValues& inputs) {
  Context::Subgraph subgraph(context, call.node().name() + "/" + graph.name);
  const OnnxValues given = translate_graph(context, *graph.graph, inputs);
  for (size_t i = 0; i < given.size(); ++i) {
    subgraph.add_output(context.cast(given[i], dtype_of(call.output(i))), sizes_of(call.output(i)));
  }
  return subgraph.finish();
}

OnnxValues cond(Context& context, const OpCall& call) {
  const HigherOrderCall parts = read_higher_order(call.node());
  const Argument& chooser = parts.operands.front();
  const OnnxValue condition = call.operand_of(chooser, c10::kBool);
  const OnnxValues inputs = operands(context, call, {parts.operands.begin() + 1, parts.operands.end()});
  const Attrs branches = {{"then_branch", branch(context, call, *parts.branches[0], inputs)},
                          {"else_branch", branch(context, call, *parts.branches[1], inputs)}};
  const Sizes sizes = chooser.is_value() ? sizes_of(*chooser.value()) : kScalar;
  return results(
      context, call,
      context.emit_many("If", {context.reshape(condition, sizes, {})}, branches, call.node().outputs().size()));
}

OnnxValue goes_on(Context& context, const Graph& condition, const OnnxValues& inputs) {
  return context.cast(translate_graph(context, condition, inputs).at(0), c10::kBool);
}

// It takes the iteration's number, whether to go on, and what is carried; it gives the latter two.
std::shared_ptr<OnnxGraph> loop_body(Context& context, const OpCall& call, const HigherOrderCall& parts,
                                     OnnxValues values) {
  const Graph& step = *parts.branches[1]->graph;
  const std::vector<Value*> placeholders = step.placeholders();
  Context::Subgraph body(context, call.node().name() + "/" + parts.branches[1]->name);
  body.add_input(c10::kLong, kScalar);
  body.add_input(c10::kBool, kScalar);
  for (size_t i = 0; i < parts.carried; ++i) {
    values[i] = body.add_input(values[i].dtype, sizes_of(*placeholders[i]));
  }
  const OnnxValues next = translate_graph(context, step, values);
  for (size_t i = 0; i < parts.carried; ++i) {
    values[i] = context.cast(next[i], values[i].dtype);
  }
  body.add_output(goes_on(context, *parts.branches[0]->graph, values), kScalar);
  for (size_t i = 0; i < parts.carried; ++i) {
    body.add_output(values[i], sizes_of(*placeholders[i]));
  }
  return body.finish();
}

OnnxValues while_loop(Context& context, const OpCall& call) {
  const HigherOrderCall parts = read_higher_order(call.node());
  OnnxValues values = operands(context, call, parts.operands);
  for (size_t i = 0; i < parts.carried; ++i) {
    values[i] = context.cast(values[i], dtype_of(call.output(i)));
  }
  const Attrs body = {{"body", loop_body(context, call, parts, values)}};
  OnnxValues inputs = {OnnxValue(), goes_on(context, *parts.branches[0]->graph, values)};  // no bound of iterations
  inputs.insert(inputs.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(parts.carried));
  return results(context, call, context.emit_many("Loop", inputs, body, parts.carried));
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"higher_order.cond", 18, cond, "If"},
    {"higher_order.while_loop", 18, while_loop, "Loop"},
};

}  // namespace

std::span<const OnnxTranslationEntry> control_flow_translations() { return kEntries; }

}  // namespace exporters::onnx
