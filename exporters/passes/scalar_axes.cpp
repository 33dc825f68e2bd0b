#include "exporters/passes/scalar_axes.h"

#include "exporters/graph/op_name.h"
#include "exporters/passes/emit.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace exporters {
namespace {

// Reductions: of one axis nothing is left, whatever keepdim says of a tensor without axes.
constexpr auto kReducing = std::to_array<std::string_view>({"aten.all",
                                                            "aten.amax",
                                                            "aten.amin",
                                                            "aten.any",
                                                            "aten.argmax",
                                                            "aten.argmin",
                                                            "aten.linalg_vector_norm",
                                                            "aten.logsumexp",
                                                            "aten.max",
                                                            "aten.mean",
                                                            "aten.median",
                                                            "aten.min",
                                                            "aten.nansum",
                                                            "aten.norm",
                                                            "aten.prod",
                                                            "aten.std",
                                                            "aten.std_mean",
                                                            "aten.sum",
                                                            "aten.var",
                                                            "aten.var_mean"});
// As many axes come out.
constexpr auto kKeeping =
    std::to_array<std::string_view>({"aten._log_softmax", "aten._softmax", "aten.cummax", "aten.cummin", "aten.cumprod",
                                     "aten.cumsum", "aten.flip", "aten.index_fill", "aten.log_softmax",
                                     "aten.logcumsumexp", "aten.roll", "aten.softmax", "aten.sort", "aten.topk"});

template <size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& ops, const Node& node) {
  const std::string_view target = node.target();
  return std::any_of(ops.begin(), ops.end(), [&](std::string_view op) {
    return target.starts_with(op) && target.size() > op.size() && target[op.size()] == '.';
  });
}

bool has_axes(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument& argument) {
    return argument.name() == "dim" || argument.name() == "dims" || argument.name() == "axis";
  });
}

void do_not_keep_axis(Node& node, const c10::FunctionSchema& schema) {
  const std::optional<int> index = schema.argumentIndexWithName("keepdim");
  if (!index) {
    return;
  }
  if (static_cast<size_t>(*index) < node.arg_count()) {
    node.set_arg(static_cast<size_t>(*index), Argument(false));
    return;
  }
  std::vector<std::pair<std::string, Argument>> kwargs = node.kwargs();
  std::erase_if(kwargs, [](const auto& each) { return each.first == "keepdim"; });
  node.set_kwargs(std::move(kwargs));
}

TensorMeta one_axis(TensorMeta meta) {
  meta.sizes = {1};
  return contiguous_meta(std::move(meta));
}

void view_back(Graph& graph, Node& node, Value* result) {
  const TensorMeta scalar = result->meta();
  result->meta() = one_axis(scalar);
  const Graph::InsertGuard guard(graph, node.next());
  Value* viewed = Emit(graph, node).call("aten.view.default", {result, Argument::List{}}, scalar);
  result->replace_all_uses_with(viewed);
  viewed->node()->set_arg(0, Argument(result));
}

}  // namespace

bool give_scalars_an_axis(Graph& graph, Node& node) {
  const bool reduces = is_one_of(kReducing, node);
  if ((!reduces && !is_one_of(kKeeping, node)) || node.arg_count() == 0 || !node.arg(0).is_value() ||
      !node.arg(0).value()->is_tensor() || node.arg(0).value()->meta().dim() != 0) {
    return false;
  }
  const c10::FunctionSchema& schema = lookup_operator(node.target()).schema();
  // max and min of two tensors go by their names, too; the norm of all elements needs an axis to go along.
  if (!has_axes(schema) && !node.target().starts_with("aten.norm.")) {
    return false;
  }
  Value* scalar = node.arg(0).value();
  {
    const Graph::InsertGuard guard(graph, &node);
    node.set_arg(
        0, Argument(Emit(graph, node)
                        .call("aten.view.default", {scalar, Argument::List{int64_t{1}}}, one_axis(scalar->meta()))));
  }
  if (reduces) {
    do_not_keep_axis(node, schema);
    return true;
  }
  for (Value* result : node.outputs()) {
    view_back(graph, node, result);
  }
  return true;
}

}  // namespace exporters
