#include "exporters/onnx/optimize/passes.h"

namespace exporters::onnx {
namespace {

bool has_gemm(OnnxType dtype) {
  return dtype == OnnxType::kFloat || dtype == OnnxType::kDouble || dtype == OnnxType::kFloat16;
}

class GemmFuser {
 public:
  explicit GemmFuser(GraphEditor& graph) : graph_(graph) {}

  std::vector<std::string> run() {
    for (OnnxNode* node : graph_.nodes()) {
      if (graph_.is_erased(node) || !node->domain.empty()) {
        continue;
      }
      const bool is_product = node->op_type == "MatMul" || node->op_type == "Gemm";
      if ((is_product && take_transpose(*node)) || (node->op_type == "Add" && take_bias(*node))) {
        changed_.push_back(node->name);
      }
    }
    return std::move(changed_);
  }

 private:
  bool is_matrix_product(const OnnxNode& node) const {
    return node.op_type == "Gemm" ||
           (node.op_type == "MatMul" && has_gemm(graph_.facts(node.inputs[0]).dtype) &&
            graph_.facts(node.inputs[0]).rank() == 2u && graph_.facts(node.inputs[1]).rank() == 2u);
  }

  // A · Transpose(B)
  bool take_transpose(OnnxNode& node) {
    OnnxNode* transpose = graph_.producer(node.inputs.at(1), "Transpose");
    if (transpose == nullptr || !is_matrix_product(node) ||
        ints_attribute(*transpose, "perm") != std::vector<int64_t>{1, 0}) {
      return false;
    }
    node.op_type = "Gemm";
    set_attribute(node, "transB", 1 - int_attribute(node, "transB", 0));
    graph_.set_input(node, 1, transpose->inputs[0]);
    graph_.erase_unused(*transpose);
    return true;
  }

  // The Add becomes the Gemm that it adds to.
  bool take_bias(OnnxNode& add) {
    for (const size_t side : {0u, 1u}) {
      OnnxNode* product = graph_.producer(add.inputs.at(side));
      const std::string bias = add.inputs.at(1 - side);
      const bool fits = product != nullptr && product->domain.empty() && is_matrix_product(*product) &&
                        product->inputs.size() == 2 && graph_.has_one_use(add.inputs[side]) &&
                        is_bias(bias, add.inputs[side]);
      if (!fits) {
        continue;
      }
      add.op_type = "Gemm";
      add.attributes = product->attributes;
      std::erase_if(add.attributes, [](const OnnxAttribute& attribute) { return attribute.name == "beta"; });
      graph_.set_inputs(add, {product->inputs[0], product->inputs[1], bias});
      graph_.erase_unused(*product);
      return true;
    }
    return false;
  }

  // [features], or [1, features]: Gemm widens it, and it never widens the product.
  bool is_bias(const std::string& bias, const std::string& product) const {
    const ValueFacts& own = graph_.facts(bias);
    const ValueFacts& whole = graph_.facts(product);
    if (!own.dims || own.dims->empty() || own.dims->size() > 2 || whole.rank() != 2u) {
      return false;
    }
    const auto* features = std::get_if<int64_t>(&own.dims->back());
    const bool is_row = own.dims->size() == 1 || own.dims->front() == OnnxDim(int64_t{1});
    return is_row && features != nullptr && whole.dims->back() == OnnxDim(*features);
  }

  GraphEditor& graph_;
  std::vector<std::string> changed_;
};

}  // namespace

std::vector<std::string> fuse_gemm(GraphEditor& graph) { return GemmFuser(graph).run(); }

}  // namespace exporters::onnx
