#include "exporters/onnx/quantize/quantize_weights.h"

#include "exporters/onnx/emit/external_data.h"
#include "exporters/support/error.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

namespace exporters::onnx {
namespace {

constexpr std::string_view kDomain = "com.microsoft";

template <typename T>
T attribute_or(const OnnxNode& node, std::string_view name, T otherwise) {
  const OnnxAttribute* attribute = node.attribute(name);
  const T* value = attribute == nullptr ? nullptr : std::get_if<T>(&attribute->data);
  return value == nullptr ? otherwise : *value;
}

// ── Products ──

// x · weight (+ c) and nothing else. `transposed`: the weight lies as [outputs, inputs].
struct Product {
  OnnxNode* node = nullptr;
  bool transposed = false;
};

// Nothing for a node that computes something else with its second input.
std::optional<Product> product_of(OnnxNode& node) {
  const bool is_gemm = node.domain.empty() && node.op_type == "Gemm";
  const bool is_fused = node.domain == kDomain && node.op_type == "FusedMatMul";
  if (node.domain.empty() && node.op_type == "MatMul") {
    return Product{&node, false};
  }
  const bool plain = attribute_or<int64_t>(node, "transA", 0) == 0 && attribute_or(node, "alpha", 1.0f) == 1.0f &&
                     attribute_or(node, "beta", 1.0f) == 1.0f && attribute_or<int64_t>(node, "transBatchA", 0) == 0 &&
                     attribute_or<int64_t>(node, "transBatchB", 0) == 0;
  if ((!is_gemm && !is_fused) || !plain) {
    return std::nullopt;
  }
  return Product{&node, attribute_or<int64_t>(node, "transB", 0) != 0};
}

// ── Uses ──

struct Use {
  OnnxNode* node = nullptr;  ///< null: an output of the graph, or a node of a nested graph
  size_t input = 0;
};

using Uses = std::map<std::string, std::vector<Use>>;

void add_nested_uses(const OnnxGraph& graph, Uses& uses) {
  for (const OnnxNode& node : graph.nodes) {
    for (const std::string& input : node.inputs) {
      uses[input].push_back({});
    }
    for_each_inner_graph(node, [&](const OnnxGraph& inner) { add_nested_uses(inner, uses); });
  }
  for (const OnnxValueInfo& output : graph.outputs) {
    uses[output.name].push_back({});
  }
}

Uses uses_of(OnnxGraph& graph) {
  Uses uses;
  for (OnnxNode& node : graph.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      uses[node.inputs[i]].push_back({&node, i});
    }
    for_each_inner_graph(node, [&](const OnnxGraph& inner) { add_nested_uses(inner, uses); });
  }
  for (const OnnxValueInfo& output : graph.outputs) {
    uses[output.name].push_back({});
  }
  return uses;
}

// ── The step ──

/// A weight under all its names (tied weights have several), and every use of its values.
struct Weight {
  std::vector<const OnnxTensor*> tensors;
  std::vector<Use> uses;
  std::vector<OnnxNode*> casts;           ///< between the weight and its uses
  OnnxType dtype = OnnxType::kUndefined;  ///< of what the uses get
  bool one_dtype = true;

  const OnnxTensor& tensor() const { return *tensors.front(); }
};

using VectorLengths = std::unordered_map<std::string, int64_t>;

// The lengths of constant vectors, also of those that are converted.
VectorLengths vector_lengths(const OnnxGraph& graph) {
  VectorLengths lengths;
  for (const OnnxTensor& tensor : graph.initializers) {
    if (tensor.dims.size() == 1) {
      lengths.emplace(tensor.name, tensor.dims[0]);
    }
  }
  VectorLengths converted;
  for (const OnnxNode& node : graph.nodes) {
    if (node.op_type == "Cast" && node.domain.empty()) {
      if (const auto source = lengths.find(node.inputs.at(0)); source != lengths.end()) {
        converted.emplace(node.outputs.at(0), source->second);
      }
    }
  }
  lengths.merge(converted);
  return lengths;
}

class WeightQuantizer {
 public:
  WeightQuantizer(OnnxModel& model, const QuantizationOptions& options)
      : model_(model),
        graph_(model.graph),
        options_(options),
        uses_(uses_of(graph_)),
        vectors_(vector_lengths(graph_)) {}

  QuantizedWeights run() {
    for (Weight& weight : weights()) {
      const std::string reason = reason_to_keep(weight);
      if (reason.empty()) {
        quantize(weight);
      } else {
        result_.kept.push_back({weight.tensor().name, reason});
      }
    }
    finish();
    return std::move(result_);
  }

 private:
  std::vector<Weight> weights();
  void add_uses(const std::string& name, OnnxType dtype, Weight& weight);
  static std::string reason_to_keep(const Weight& weight);
  void quantize(const Weight& weight);
  std::vector<std::string> add_initializers(const std::shared_ptr<const QuantizedMatrix>& matrix);
  void replace(OnnxNode& node, const QuantizedMatrix& matrix, const std::vector<std::string>& inputs);
  void finish();

  OnnxModel& model_;
  OnnxGraph& graph_;
  const QuantizationOptions& options_;
  Uses uses_;
  const VectorLengths vectors_;
  std::vector<OnnxTensor> added_;
  std::vector<OnnxNode> additions_;  ///< of biases that MatMulNBits does not take
  std::set<std::string> removed_;    ///< initializers
  std::set<const OnnxNode*> removed_nodes_;
  QuantizedWeights result_;
};

bool is_floating(OnnxType type) {
  const auto dtype = scalar_type(type);
  return dtype && c10::isFloatingType(*dtype);
}

std::vector<Weight> WeightQuantizer::weights() {
  std::vector<Weight> found;
  std::map<std::string, size_t> by_key;
  for (const OnnxTensor& tensor : graph_.initializers) {
    if (!tensor.is_pending() || tensor.dims.size() < 2 || !is_floating(tensor.dtype)) {
      continue;
    }
    const std::optional<BytesKey> key = bytes_key(tensor);
    const std::string id = key ? fmt::format("{} {}", key->offset, key->whole) : "name " + tensor.name;
    const auto [slot, fresh] = by_key.emplace(id, found.size());
    Weight& weight = fresh ? found.emplace_back() : found[slot->second];
    weight.tensors.push_back(&tensor);
    add_uses(tensor.name, tensor.dtype, weight);
  }
  return found;
}

void WeightQuantizer::add_uses(const std::string& name, OnnxType dtype, Weight& weight) {
  for (const Use& use : uses_[name]) {
    if (use.node != nullptr && use.node->domain.empty() && use.node->op_type == "Cast") {
      weight.casts.push_back(use.node);
      add_uses(use.node->outputs.at(0), static_cast<OnnxType>(attribute_or<int64_t>(*use.node, "to", 0)), weight);
      continue;
    }
    weight.one_dtype = weight.one_dtype && (weight.uses.empty() || weight.dtype == dtype);
    weight.dtype = dtype;
    weight.uses.push_back(use);
  }
}

std::string reason_to_keep(const std::vector<Use>& uses) {
  std::set<std::string> others;
  std::set<bool> forms;
  for (const Use& use : uses) {
    const auto product = use.node != nullptr && use.input == 1 ? product_of(*use.node) : std::nullopt;
    if (product) {
      forms.insert(product->transposed);
    } else {
      others.insert(use.node == nullptr ? "a nested graph or an output" : use.node->op_type);
    }
  }
  if (others.empty()) {
    return forms.size() == 1 ? "" : "products read it in two forms, as it is and transposed";
  }
  if (forms.empty()) {
    return others == std::set<std::string>{"Gather"} ? "a table that Gather reads: an embedding"
                                                     : "read by " + *others.begin();
  }
  return others == std::set<std::string>{"Gather"} ? "tied to an embedding, which Gather reads"
                                                   : "read by " + *others.begin() + " too";
}

std::string WeightQuantizer::reason_to_keep(const Weight& weight) {
  const OnnxTensor& tensor = weight.tensor();
  if (std::string reason = onnx::reason_to_keep(weight.uses); !reason.empty()) {
    return reason;
  }
  if (tensor.dims.size() != 2) {
    return fmt::format("has {} axes: a stack of matrices", tensor.dims.size());
  }
  if (tensor.dims[0] == 0 || tensor.dims[1] == 0) {
    return "is empty";
  }
  if (!weight.one_dtype || (weight.dtype != OnnxType::kFloat && weight.dtype != OnnxType::kFloat16)) {
    return "products of " + type_name(weight.dtype) + ", and MatMulNBits takes float32 and float16";
  }
  if (std::holds_alternative<ComputedBytes>(tensor.data)) {
    return "is made while it is written";
  }
  return {};
}

MatrixSource source_of(const OnnxTensor& tensor, bool transposed_product) {
  MatrixSource source;
  source.dtype = scalar_type(tensor.dtype).value();
  source.rows = tensor.dims[transposed_product ? 0 : 1];
  source.columns = tensor.dims[transposed_product ? 1 : 0];
  source.transposed = !transposed_product;
  if (const auto* file = std::get_if<WeightSource>(&tensor.data)) {
    source.bytes = *file;
  } else {
    const at::Tensor& bytes = std::get<at::Tensor>(tensor.data);
    ensure(bytes.sizes() == at::IntArrayRef(tensor.dims), "initializer '{}' holds a tensor of other sizes",
           tensor.name);
    source.bytes = bytes;
  }
  return source;
}

void WeightQuantizer::quantize(const Weight& weight) {
  const Product first = *product_of(*weight.uses.front().node);
  const auto matrix = std::make_shared<const QuantizedMatrix>(
      weight.tensor().name, source_of(weight.tensor(), first.transposed), options_.format,
      weight.dtype == OnnxType::kFloat16 ? c10::kHalf : c10::kFloat);
  const std::vector<std::string> inputs = add_initializers(matrix);
  for (const Use& use : weight.uses) {
    replace(*use.node, *matrix, inputs);
  }
  for (const OnnxTensor* tensor : weight.tensors) {
    removed_.insert(tensor->name);
  }
  removed_nodes_.insert(weight.casts.begin(), weight.casts.end());
  result_.matrices.push_back(matrix);
}

// Names of values, scales and zero points.
std::vector<std::string> WeightQuantizer::add_initializers(const std::shared_ptr<const QuantizedMatrix>& matrix) {
  const int64_t rows = matrix->source().rows;
  const int64_t columns = matrix->source().columns;
  const QuantizationFormat& format = options_.format;
  std::vector<std::string> names;
  const auto add = [&](const char* suffix, OnnxType dtype, std::vector<int64_t> dims, QuantizedMatrix::Part part) {
    names.push_back(matrix->name() + suffix);
    added_.push_back({names.back(), dtype, std::move(dims), ComputedBytes{matrix, part.offset, part.nbytes}});
  };
  add(".values", OnnxType::kUint8, {rows, format.blocks(columns), format.block_size * format.bits / 8},
      matrix->values());
  add(".scales", onnx_type(matrix->scale_dtype()), {rows, format.blocks(columns)}, matrix->scales());
  if (!format.symmetric) {
    add(".zero_points", OnnxType::kUint8, {rows, format.zero_point_bytes(columns)}, matrix->zero_points());
  }
  return names;
}

void WeightQuantizer::replace(OnnxNode& node, const QuantizedMatrix& matrix, const std::vector<std::string>& inputs) {
  const int64_t outputs = matrix.source().rows;
  const std::string bias = node.inputs.size() > 2 ? node.inputs[2] : "";
  node.inputs.resize(1);
  node.inputs.insert(node.inputs.end(), inputs.begin(), inputs.end());
  if (const auto length = vectors_.find(bias); length != vectors_.end() && length->second == outputs) {
    node.inputs.resize(6);
    node.inputs[5] = bias;
  } else if (!bias.empty()) {
    const std::string sum = node.outputs[0];
    node.outputs[0] += "/product";
    additions_.push_back({node.name + "/bias", "Add", "", {node.outputs[0], bias}, {sum}, {}});
  }
  node.op_type = "MatMulNBits";
  node.domain = kDomain;
  node.attributes = {{"K", matrix.source().columns},
                     {"N", outputs},
                     {"accuracy_level", options_.accuracy_level},
                     {"bits", options_.format.bits},
                     {"block_size", options_.format.block_size}};
}

void WeightQuantizer::finish() {
  std::map<std::string, OnnxNode> by_product;
  for (OnnxNode& addition : additions_) {
    by_product.emplace(addition.inputs[0], std::move(addition));
  }
  std::vector<OnnxNode> nodes;
  for (OnnxNode& node : graph_.nodes) {
    if (removed_nodes_.contains(&node)) {
      continue;
    }
    nodes.push_back(std::move(node));
    if (const auto addition = by_product.find(nodes.back().outputs.empty() ? "" : nodes.back().outputs[0]);
        addition != by_product.end()) {
      nodes.push_back(std::move(addition->second));
    }
  }
  graph_.nodes = std::move(nodes);
  std::erase_if(graph_.initializers, [&](const OnnxTensor& tensor) { return removed_.contains(tensor.name); });
  std::move(added_.begin(), added_.end(), std::back_inserter(graph_.initializers));
  if (!result_.matrices.empty() && !model_.opset(kDomain)) {
    model_.opsets.emplace_back(kDomain, 1);
  }
}

}  // namespace

QuantizedWeights quantize_weights(OnnxModel& model, const QuantizationOptions& options) {
  check_format(options.format);
  return WeightQuantizer(model, options).run();
}

}  // namespace exporters::onnx
