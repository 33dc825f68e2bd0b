#include "exporters/executorch/edge/passes.h"
#include "exporters/graph/node_check.h"
#include "exporters/passes/emit.h"

#include <algorithm>

namespace exporters::executorch {
namespace {

TensorMeta meta_like(const TensorMeta& like, std::vector<Expr> sizes) {
  TensorMeta meta = like;
  meta.sizes = std::move(sizes);
  return contiguous_meta(meta);
}

// One matmul as a product of batches of matrices.
class MatmulLowering {
 public:
  MatmulLowering(Graph& graph, Node& node) : node_(node), emit_(graph, node) {}

  Value* run() {
    Value* a = node_.arg(0).value();
    Value* b = node_.arg(1).value();
    const TensorMeta& result = node_.output()->meta();
    ensure_at(node_, a->meta().dim() >= 2 && b->meta().dim() >= 2 && result.dim() >= 2,
              " has an operand with fewer than two axes");
    if (result.dim() == 2) {
      return emit_.call("aten.mm.default", {a, b}, result);
    }
    const std::vector<Expr> batch(result.sizes.begin(), result.sizes.end() - 2);
    Value* left = as_batch(a, batch);
    Value* right = as_batch(b, batch);
    const std::vector<Expr> sizes = {left->meta().sizes[0], left->meta().sizes[1], right->meta().sizes[2]};
    Value* product = emit_.call("aten.bmm.default", {left, right}, meta_like(result, sizes));
    return result.dim() == 3 ? product : view(product, result.sizes);
  }

 private:
  Value* as_batch(Value* x, const std::vector<Expr>& batch) {
    const auto& own = x->meta().sizes;
    std::vector<Expr> sizes = batch;
    sizes.insert(sizes.end(), own.end() - 2, own.end());
    if (!(sizes == own)) {
      x = emit_.call("aten.expand_copy.default", {x, arguments(sizes)}, meta_like(x->meta(), sizes));
    }
    Expr count = 1;
    for (const Expr& size : batch) {
      count = count * size;
    }
    return batch.size() == 1 ? x : view(x, {count, sizes[batch.size()], sizes[batch.size() + 1]});
  }

  Value* view(Value* x, const std::vector<Expr>& sizes) {
    return emit_.call("aten.view_copy.default", {x, arguments(sizes)}, meta_like(x->meta(), sizes));
  }

  // Products of batches have no axis to read them from.
  Argument arguments(const std::vector<Expr>& sizes) {
    Argument::List list;
    for (const Expr& size : sizes) {
      list.push_back(argument(size));
    }
    return Argument(std::move(list));
  }

  Argument argument(const Expr& size) {
    if (const auto number = size.as_int()) {
      return Argument(*number);
    }
    for (const size_t input : {0, 1}) {
      Value* tensor = node_.arg(input).value();
      const auto& sizes = tensor->meta().sizes;
      const auto axis = std::find(sizes.begin(), sizes.end(), size);
      if (axis != sizes.end()) {
        return emit_.size(tensor, axis - sizes.begin());
      }
    }
    return product_of_batch();
  }

  Argument product_of_batch() {
    const TensorMeta& result = node_.output()->meta();
    Argument product(int64_t{1});
    Expr total = 1;
    for (size_t axis = 0; axis + 2 < result.sizes.size(); ++axis) {
      const Argument size = argument(result.sizes[axis]);
      total = total * result.sizes[axis];
      const bool is_first = product.is<int64_t>() && product.as<int64_t>() == 1;
      if (is_first) {
        product = size;
      } else if (product.is<int64_t>() && size.is<int64_t>()) {
        product = Argument(product.as<int64_t>() * size.as<int64_t>());
      } else {
        Node* node = emit_.graph().call("_operator.mul", {product, size});
        Value* value = emit_.graph().add_output(node, Value::Kind::kSymInt);
        value->sym() = total;
        product = Argument(value);
      }
    }
    return product;
  }

  Node& node_;
  Emit emit_;
};

}  // namespace

void lower_matmul(ExportedProgram& program, const Stays& stays) {
  Graph& graph = *program.graph;
  for (Node& node : graph) {
    if (!node.is_call("aten.matmul.default") || stays(node)) {
      continue;
    }
    const Graph::InsertGuard guard(graph, &node);
    node.output()->replace_all_uses_with(MatmulLowering(graph, node).run());
    graph.erase(&node);
  }
  update_outputs(program);
}

}  // namespace exporters::executorch
