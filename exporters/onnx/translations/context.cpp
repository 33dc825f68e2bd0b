#include "exporters/onnx/translations/context.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/onnx/emit/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace exporters::onnx {
namespace {

// Larger constants go to the external data file; shape and axis constants are always smaller, and ONNX Runtime wants
// those inline.
constexpr size_t kInlineBytes = 256;

// Of ONNX Runtime 1.32's CPU provider, found by opening a model of each operator for each dtype. bfloat16 has few
// kernels too, but is computed as float (compute_dtype); float16 has all.
constexpr std::array<std::string_view, 26> kNoFloat64Kernel = {"Acos",
                                                               "Acosh",
                                                               "Asin",
                                                               "Asinh",
                                                               "Atan",
                                                               "Atanh",
                                                               "AveragePool",
                                                               "Conv",
                                                               "ConvTranspose",
                                                               "Cosh",
                                                               "Elu",
                                                               "Erf",
                                                               "Gelu",
                                                               "HardSigmoid",
                                                               "HardSwish",
                                                               "LeakyRelu",
                                                               "Mish",
                                                               "NonZero",
                                                               "OneHot",
                                                               "PRelu",
                                                               "Resize",
                                                               "Selu",
                                                               "InstanceNormalization",
                                                               "Sinh",
                                                               "Softplus",
                                                               "Tan"};
constexpr std::array<std::string_view, 5> kLongOps = {"Shape", "Size", "ArgMax", "ArgMin", "NonZero"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

c10::ScalarType result_dtype(std::string_view op, const OnnxValues& inputs, const Attrs& attrs) {
  if (gives_bool(op)) {
    return c10::kBool;
  }
  if (contains(kLongOps, op)) {
    return c10::kLong;
  }
  if (op == "Cast") {
    return *scalar_type(static_cast<OnnxType>(std::get<int64_t>(attrs.at(0).data)));
  }
  if (op == "OneHot") {
    return inputs.at(2).dtype;
  }
  return inputs.at(op == "Where" ? 1 : 0).dtype;
}

// Empty for a node that is never equal to another.
std::string node_key(std::string_view domain, std::string_view op, const OnnxValues& inputs, const Attrs& attrs,
                     size_t outputs) {
  if (is_random(op)) {
    return {};
  }
  std::string key = fmt::format("{}.{}:{}", domain, op, outputs);
  for (const OnnxValue& input : inputs) {
    key += '|' + input.name;
  }
  const bool comparable = std::all_of(attrs.begin(), attrs.end(),
                                      [&](const OnnxAttribute& attribute) { return append_to_key(key, attribute); });
  return comparable ? key : std::string();
}

std::string tensor_bytes(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  return std::string(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
}

// "aten.add.Tensor" → "add".
std::string op_name(const Node& node) {
  const std::string& target = node.target();
  const size_t first = target.find('.');
  const size_t last = target.find('.', first + 1);
  return first == std::string::npos ? target : target.substr(first + 1, last - first - 1);
}

}  // namespace

TranslationContext::TranslationContext(const ExportedProgram& program, int64_t opset,
                                       std::optional<std::string> ort_fusions)
    : program_(program), opset_(opset), ort_fusions_(std::move(ort_fusions)), env_(std::make_unique<ShapeEnv>()) {
  for (const auto& [name, range] : program.range_constraints) {
    const auto hint = program.hints.find(name);
    env_->declare(Symbol(name), range, hint == program.hints.end() ? std::nullopt : std::optional(hint->second));
  }
  for (const InputSpec& spec : program.signature.inputs) {
    input_specs_.emplace(spec.name, &spec);
  }
}

TranslationContext::~TranslationContext() = default;

// ── Nodes ──

void TranslationContext::enter(const Node* node) { node_ = node; }

std::string TranslationContext::unique_name(const std::string& hint) {
  std::string name = hint;
  while (!names_.insert(name).second) {
    name = fmt::format("{}_{}", hint, ++name_counts_[hint]);
  }
  return name;
}

std::string TranslationContext::node_name() {
  if (node_ == nullptr) {
    return "sizes";
  }
  std::string path = node_->module_stack().empty() ? node_->place().module_path : node_->module_stack().back().path;
  std::replace(path.begin(), path.end(), '.', '/');
  return path.empty() ? op_name(*node_) : path + "/" + op_name(*node_);
}

OnnxValue TranslationContext::emit(std::string_view op, const OnnxValues& inputs, const Attrs& attrs) {
  return emit_many(op, inputs, attrs, 1).front();
}

OnnxValues TranslationContext::emit_many(std::string_view op, const OnnxValues& inputs, const Attrs& attrs,
                                         size_t outputs) {
  return emit_node("", op, inputs, attrs, outputs);
}

OnnxValues TranslationContext::emit_contrib(std::string_view op, const OnnxValues& inputs, const Attrs& attrs,
                                            size_t outputs) {
  return emit_node("com.microsoft", op, inputs, attrs, outputs);
}

OnnxValues TranslationContext::emit_node(std::string_view domain, std::string_view op, const OnnxValues& inputs,
                                         const Attrs& attrs, size_t outputs) {
  std::string key = node_key(domain, op, inputs, attrs, outputs);
  if (const auto known = emitted_.find(key); known != emitted_.end()) {
    return known->second;
  }
  OnnxNode node;
  node.name = unique_name(node_name());
  node.op_type = std::string(op);
  node.domain = std::string(domain);
  for (const OnnxValue& input : inputs) {
    node.inputs.push_back(input.name);
  }
  while (!node.inputs.empty() && node.inputs.back().empty()) {
    node.inputs.pop_back();
  }
  node.attributes.assign(attrs.begin(), attrs.end());
  const c10::ScalarType dtype = result_dtype(op, inputs, attrs);
  const bool on_float64 = !inputs.empty() && inputs.front().dtype == c10::kDouble;
  if (on_float64 && contains(kNoFloat64Kernel, op)) {
    without_kernel_.emplace(op);
  }
  OnnxValues results;
  for (size_t i = 0; i < outputs; ++i) {
    results.push_back({i == 0 ? node.name : unique_name(node.name + "." + std::to_string(i)), dtype});
    node.outputs.push_back(results.back().name);
    producers_[results.back().name] = graph_.nodes.size();
  }
  graph_.nodes.push_back(std::move(node));
  if (!key.empty()) {
    emitted_.emplace(std::move(key), results);
  }
  return results;
}

const OnnxNode* TranslationContext::producer(const OnnxValue& value) const {
  const auto found = producers_.find(value.name);
  return found == producers_.end() ? nullptr : &graph_.nodes[found->second];
}

// Note [2-D form]
// A linear layer on [batch, sequence, features] is Reshape → Gemm → Reshape. What stands between two such layers is
// mostly elementwise, and gives the same on [batch · sequence, features]: emitted there, the two reshapes meet and
// fall away (`reshape` collapses chains, and dead nodes are removed at the end).
OnnxValue TranslationContext::emit_pointwise(std::string_view op, const OnnxValues& inputs, const Attrs& attrs) {
  const Sizes* sizes = nullptr;
  bool has_matrix = false;
  bool fits = true;
  for (const OnnxValue& input : inputs) {
    const Sizes* own = sizes_of(input);
    fits = fits && own != nullptr;
    if (!fits) {
      break;
    }
    if (own->size() <= 1) {
      continue;  // broadcasts along the last axis in either form
    }
    fits = own->size() > 2 && (sizes == nullptr || same(*sizes, *own));
    sizes = own;
    const Reshaped* reshaped = reshaped_from(input);
    has_matrix =
        has_matrix || (reshaped != nullptr && reshaped->sizes.size() == 2 && reshaped->sizes.back() == own->back());
  }
  if (!fits || !has_matrix) {
    return emit(op, inputs, attrs);
  }
  const Sizes full = *sizes;
  OnnxValues matrices;
  for (const OnnxValue& input : inputs) {
    const Sizes own = *sizes_of(input);
    // A vector of another length than the last axis (say 1) would be fine too; a rank-1 operand always broadcasts.
    matrices.push_back(own.size() <= 1 ? input : as_matrix(input, own));
  }
  const OnnxValue result = emit(op, matrices, attrs);
  Expr rows = 1;
  for (size_t i = 0; i + 1 < full.size(); ++i) {
    rows = rows * full[i];
  }
  return reshape(result, {rows, full.back()}, full);
}

// ── Constants ──

OnnxValue TranslationContext::constant(const at::Tensor& tensor) {
  OnnxTensor entry;
  entry.dtype = onnx_type(tensor.scalar_type());
  entry.dims = tensor.sizes().vec();
  std::string bytes = tensor_bytes(tensor);
  const std::string key = fmt::format("{}[{}]", type_name(entry.dtype), fmt::join(entry.dims, ",")) + bytes;
  const auto known = constants_.find(key);
  if (known != constants_.end()) {
    return known->second;
  }
  entry.name = unique_name(fmt::format("constant/{}_{}", type_name(entry.dtype), constants_.size()));
  const OnnxValue value{entry.name, tensor.scalar_type()};
  if (tensor.scalar_type() == c10::kLong && bytes.size() <= kInlineBytes) {
    constant_tensors_.emplace(entry.name, tensor);
  }
  if (tensor.scalar_type() == c10::kLong && tensor.dim() <= 1) {
    const auto* numbers = reinterpret_cast<const int64_t*>(bytes.data());
    constant_ints_[entry.name] = std::vector<int64_t>(numbers, numbers + tensor.numel());
  }
  if (bytes.size() <= kInlineBytes || tensor.scalar_type() == c10::kLong) {
    entry.data = InlineBytes{std::move(bytes)};
  } else {
    entry.data = tensor.contiguous();
  }
  sizes_[entry.name] = Sizes(entry.dims.begin(), entry.dims.end());
  graph_.initializers.push_back(std::move(entry));
  constants_.emplace(key, value);
  return value;
}

OnnxValue TranslationContext::constant(int64_t value, c10::ScalarType dtype) {
  return constant(c10::Scalar(value), dtype);
}

OnnxValue TranslationContext::constant(double value, c10::ScalarType dtype) {
  return constant(c10::Scalar(value), dtype);
}

OnnxValue TranslationContext::constant(const c10::Scalar& value, c10::ScalarType dtype) {
  return constant(at::scalar_tensor(value, at::TensorOptions().dtype(dtype)));
}

OnnxValue TranslationContext::constant(const std::vector<int64_t>& values) {
  return constant(at::tensor(values, c10::kLong));
}

std::optional<std::vector<int64_t>> TranslationContext::constant_ints(const OnnxValue& value) const {
  const auto found = constant_ints_.find(value.name);
  return found == constant_ints_.end() ? std::nullopt : std::optional(found->second);
}

at::Tensor TranslationContext::constant_tensor(const OnnxValue& value) const {
  const auto found = constant_tensors_.find(value.name);
  return found == constant_tensors_.end() ? at::Tensor() : found->second;
}

// ── Types ──

c10::ScalarType TranslationContext::compute_dtype(c10::ScalarType dtype) {
  return dtype == c10::kBFloat16 ? c10::kFloat : dtype;
}

OnnxValue TranslationContext::cast(const OnnxValue& value, c10::ScalarType dtype) {
  if (value.dtype == dtype || !value.present()) {
    return value;
  }
  const OnnxValue result = emit_pointwise("Cast", {value}, {{"to", dtype}});
  if (const Sizes* sizes = sizes_of(value)) {
    declare_sizes(result, Sizes(*sizes));
  }
  return result;
}

void TranslationContext::require_not_empty(const Expr& size) {
  if (!at_least(size, 1)) {
    require(ge(size, 1));
  }
}

void TranslationContext::require(const BoolExpr& condition) {
  if (std::find(requirements_.begin(), requirements_.end(), condition) == requirements_.end()) {
    requirements_.push_back(condition);
  }
}

// ── The torch side ──

void TranslationContext::bind(const Value* value, OnnxValue result) {
  if (value->is_tensor()) {
    declare_sizes(result, value->meta().sizes);
  }
  values_[value] = std::move(result);
}

void TranslationContext::rebind(const Value* value, OnnxValue result) {
  declare_sizes(result, value->meta().sizes);
  values_.insert_or_assign(value, std::move(result));
}

OnnxValue TranslationContext::add_initializer(std::string name, const StateTensor& state) {
  OnnxTensor entry;
  entry.name = unique_name(name);
  entry.dtype = onnx_type(state.tensor.scalar_type());
  entry.dims = state.tensor.sizes().vec();
  if (state.tensor.nbytes() <= kInlineBytes) {
    entry.data = InlineBytes{tensor_bytes(undeferred(state.tensor))};
  } else if (state.source) {
    entry.data = *state.source;
  } else {
    entry.data = state.tensor;
  }
  OnnxValue value{entry.name, state.tensor.scalar_type()};
  if (value.dtype == c10::kLong && std::holds_alternative<InlineBytes>(entry.data)) {
    constant_tensors_.emplace(entry.name, state.tensor);
  }
  graph_.initializers.push_back(std::move(entry));
  return value;
}

OnnxValue TranslationContext::parameter(const InputSpec& spec) {
  const auto found = program_.state.find(spec.target);
  ensure(found != program_.state.end() && found->second.tensor.defined(), "the program has no tensor for '{}'",
         spec.target);
  return add_initializer(spec.target, found->second);
}

const OnnxValue* TranslationContext::find_bound(const Value* value) const {
  const auto known = values_.find(value);
  return known == values_.end() ? nullptr : &known->second;
}

const InputSpec* TranslationContext::input_spec(const Value& value) const {
  const auto found = value.node()->is_placeholder() ? input_specs_.find(value.name()) : input_specs_.end();
  return found == input_specs_.end() ? nullptr : found->second;
}

OnnxValue TranslationContext::value(const Value* value) {
  const auto known = values_.find(value);
  if (known != values_.end()) {
    return known->second;
  }
  const InputSpec* spec = input_spec(*value);
  ensure(spec != nullptr && !spec->target.empty(), "value '{}' has no ONNX counterpart", value->name());
  const OnnxValue result = parameter(*spec);
  bind(value, result);
  return result;
}

}  // namespace exporters::onnx
