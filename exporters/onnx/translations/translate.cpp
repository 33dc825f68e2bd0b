#include "exporters/onnx/translations/translate.h"

#include "exporters/graph/op_name.h"
#include "exporters/onnx/translations/table.h"
#include "exporters/support/error.h"

#include <algorithm>
#include <stdexcept>

namespace exporters::onnx {
namespace {

// Integers over sizes have no nodes: their expressions are computed where they are used.
bool is_size_arithmetic(const Node& node) {
  const auto& outputs = node.outputs();
  const bool integers = !outputs.empty() && std::all_of(outputs.begin(), outputs.end(), [](const Value* output) {
    return output->kind() == Value::Kind::kSymInt;
  });
  return integers && !is_higher_order_target(node.target()) && !node.is_call("aten.item.default") &&
         !node.is_call("aten._local_scalar_dense.default");
}

// Functional ops without used results, assertions among them, leave no trace. What declares a symbol stays.
bool is_dead(const Node& node) {
  const auto& outputs = node.outputs();
  const auto used = [](const Value* value) { return value->has_users() || value->kind() == Value::Kind::kSymInt; };
  return std::none_of(outputs.begin(), outputs.end(), [&](const Value* output) {
    return used(output) || std::any_of(output->elements().begin(), output->elements().end(), used);
  });
}

void translate(TranslationContext& context, const Node& node) {
  const OnnxTranslation* function = find_onnx_translation(node.target(), context.opset());
  ensure(function != nullptr, "no ONNX translation of {} at opset {}", node.target(), context.opset());
  const OnnxValues results = (*function)(context, OpCall(context, node));
  const bool is_list = node.outputs().size() == 1 && node.output()->kind() == Value::Kind::kTensorList;
  const std::vector<Value*>& outputs = is_list ? node.output()->elements() : node.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value* output = outputs[i];
    if (i >= results.size()) {
      ensure(!output->has_users(), "its output {} has no ONNX counterpart", i);
      continue;
    }
    context.bind(output, output->is_tensor() ? context.cast(results[i], output->meta().dtype) : results[i]);
  }
}

OnnxValue output_value(TranslationContext& context, const Argument& output) {
  if (output.is_value()) {
    const Value* value = output.value();
    return value->kind() == Value::Kind::kSymInt ? context.size_scalar(value->sym()) : context.value(value);
  }
  if (const auto* integer = output.get_if<int64_t>()) return context.constant(*integer, c10::kLong);
  if (const auto* real = output.get_if<double>()) return context.constant(*real, c10::kDouble);
  if (const auto* flag = output.get_if<bool>()) return context.constant(int64_t{*flag}, c10::kBool);
  fail("a subgraph gives something that is neither a tensor nor a number");
}

}  // namespace

bool needs_translation(const Node& node) {
  return node.kind() == Node::Kind::kCall && !is_dead(node) && !is_size_arithmetic(node);
}

void translate_nodes(TranslationContext& context, const Graph& graph) {
  const Node* outer = context.node();
  for (const Node& node : graph) {
    if (!needs_translation(node)) {
      continue;
    }
    context.enter(&node);
    try {
      translate(context, node);
    } catch (const Error& error) {
      if (!error.where().empty()) {
        throw;
      }
      throw error.with_context(node.describe());
    } catch (const std::runtime_error& error) {  // c10's, of a number that a dtype does not hold
      throw Error(error.what(), node.describe(), "Convert the operands to a dtype that holds all numbers.");
    }
  }
  context.enter(outer);
}

OnnxValues translate_graph(TranslationContext& context, const Graph& graph, const OnnxValues& inputs) {
  const TranslationContext::SizeScope sizes(context);
  const std::vector<Value*> placeholders = graph.placeholders();
  ensure(placeholders.size() == inputs.size(), "a subgraph of {} inputs is called with {}", placeholders.size(),
         inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value* placeholder = placeholders[i];
    if (placeholder->kind() == Value::Kind::kSymInt) {
      if (const auto symbol = placeholder->sym().as_symbol()) {
        context.redeclare_symbol(*symbol, inputs[i]);
      }
    } else {
      context.bind(placeholder, inputs[i]);
    }
  }
  translate_nodes(context, graph);
  OnnxValues results;
  for (const Argument& output : graph.outputs()) {
    results.push_back(output_value(context, output));
  }
  return results;
}

}  // namespace exporters::onnx
