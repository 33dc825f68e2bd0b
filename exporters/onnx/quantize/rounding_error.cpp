#include "exporters/onnx/quantize/rounding_error.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/interpreter/evaluate.h"
#include "exporters/interpreter/ivalue.h"
#include "exporters/onnx/emit/external_data.h"
#include "exporters/support/error.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

namespace exporters::onnx {
namespace {

using InputKind = InputSpec::Kind;

// A value with the weights as they are, and with rounded ones.
struct Twin {
  c10::IValue exact;
  c10::IValue rounded;
  bool differs = false;
  bool is_weight = false;  ///< one that is rounded, or a transpose of it
};

std::string key_of(const std::variant<WeightSource, at::Tensor>& bytes) {
  OnnxTensor tensor;
  std::visit([&](const auto& data) { tensor.data = data; }, bytes);
  const std::optional<BytesKey> key = bytes_key(tensor);
  return key ? key->whole : std::string();
}

at::Tensor dequantized(const QuantizedMatrix& matrix, const QuantizedRows& rows, at::IntArrayRef sizes) {
  at::Tensor values = at::empty(sizes, c10::kFloat);
  dequantize_rows(rows, matrix.source().columns, matrix.format(),
                  {values.mutable_data_ptr<float>(), static_cast<size_t>(values.numel())});
  return values;
}

// Each block of a row has a scale of its own: the largest magnitude becomes 127.
at::Tensor rounded_to_int8(const at::Tensor& x, int64_t block) {
  const int64_t columns = x.size(-1);
  const int64_t padding = (block - columns % block) % block;
  const at::Tensor padded = at::constant_pad_nd(x.to(c10::kFloat), {0, padding});
  const at::Tensor blocks = padded.unflatten(-1, {-1, block});
  const at::Tensor scales = blocks.abs().amax(-1, /*keepdim=*/true).div(127);
  const at::Tensor rounded = blocks.div(scales.clamp_min(std::numeric_limits<float>::min())).round().mul(scales);
  return rounded.flatten(-2).narrow(-1, 0, columns).to(x.scalar_type());
}

// Which argument of a product meets the weight.
std::optional<size_t> activation_argument(const Node& node) {
  if (node.is_call("aten.linear.default") || node.is_call("aten.mm.default") || node.is_call("aten.matmul.default")) {
    return 0;
  }
  return node.is_call("aten.addmm.default") ? std::optional<size_t>(1) : std::nullopt;
}

class TwinRun {
 public:
  TwinRun(const ExportedProgram& program, const QuantizedWeights& weights, const QuantizationOptions& options)
      : program_(program), options_(options) {
    for (const auto& matrix : weights.matrices) {
      matrices_.emplace(key_of(matrix->source().bytes), matrix.get());
    }
  }

  std::vector<OutputError> run() {
    const at::NoGradGuard no_grad;
    bind_inputs();
    for (const Node& node : *program_.graph) {
      if (node.kind() == Node::Kind::kCall) {
        call(node);
        release_inputs(node);
      }
    }
    return errors();
  }

 private:
  void bind_inputs();
  Twin state_twin(const StateTensor& state);
  void call(const Node& node);
  bool call_linear(const Node& node);
  void bind(const Node& node, std::vector<c10::IValue> exact, std::vector<c10::IValue> rounded, bool differs);
  void release_inputs(const Node& node);
  const Twin& twin(const Value* value);
  Twin materialized(const QuantizedMatrix& matrix, c10::ScalarType dtype) const;
  at::Tensor as_activation(const at::Tensor& x) const {
    return options_.accuracy_level == 4 ? rounded_to_int8(x, options_.format.block_size) : x;
  }
  std::vector<OutputError> errors();

  const ExportedProgram& program_;
  const QuantizationOptions& options_;
  std::unordered_map<std::string, const QuantizedMatrix*> matrices_;        // by bytes
  std::unordered_map<const Value*, const QuantizedMatrix*> weight_values_;  // placeholders
  std::unordered_map<const Value*, Twin> twins_;
  std::unordered_map<const Value*, size_t> released_;  // uses that are over
};

void TwinRun::bind_inputs() {
  const std::vector<Value*> placeholders = program_.graph->placeholders();
  size_t sample = 0;
  for (size_t i = 0; i < placeholders.size(); ++i) {
    const InputSpec& spec = program_.signature.inputs[i];
    Twin twin;
    if (spec.kind == InputKind::kUserInput) {
      ensure(sample < program_.sample_inputs.size(), "the program has no sample inputs");
      const at::Tensor& tensor = program_.sample_inputs[sample++];
      ensure(tensor.defined() && tensor.is_cpu(), "the sample of '{}' has no values", spec.name);
      twin.exact = placeholders[i]->is_tensor() ? c10::IValue(tensor) : c10::IValue(tensor.item().toLong());
    } else if (spec.kind == InputKind::kConstantInput) {
      twin.exact = constant_to_ivalue(spec.constant, *c10::AnyType::get());
    } else {
      ensure(program_.state.contains(spec.target), "the input '{}' is a custom object or a token", spec.name);
      const StateTensor& state = program_.state.at(spec.target);
      const auto matrix = matrices_.find(key_of(state.source ? decltype(MatrixSource::bytes)(*state.source)
                                                             : decltype(MatrixSource::bytes)(state.tensor)));
      if (matrix != matrices_.end()) {
        weight_values_.emplace(placeholders[i], matrix->second);
        twin.is_weight = true;
      } else {
        twin.exact = undeferred(state.tensor);
      }
    }
    twin.rounded = twin.exact;
    twins_.emplace(placeholders[i], std::move(twin));
  }
  // Otherwise the errors would be those of some of the rounded weights only.
  for (const auto& [key, matrix] : matrices_) {
    ensure(std::any_of(weight_values_.begin(), weight_values_.end(),
                       [&, wanted = matrix](const auto& each) { return each.second == wanted; }),
           "the rounded weight '{}' is none of the traced program's", matrix->name());
  }
}

// Read when it is needed, and whole: for products that are not aten.linear.
Twin TwinRun::materialized(const QuantizedMatrix& matrix, c10::ScalarType dtype) const {
  const MatrixSource& source = matrix.source();
  const at::Tensor exact = at::empty({source.rows, source.columns}, dtype);
  const at::Tensor rounded = at::empty_like(exact);
  matrix.for_each_rows([&](int64_t row, const at::Tensor& values, const QuantizedRows& rows) {
    exact.narrow(0, row, values.size(0)).copy_(values);
    rounded.narrow(0, row, values.size(0)).copy_(dequantized(matrix, rows, values.sizes()));
  });
  return {source.transposed ? exact.t() : exact, source.transposed ? rounded.t() : rounded, true, true};
}

const Twin& TwinRun::twin(const Value* value) {
  Twin& found = twins_.at(value);
  const auto weight = weight_values_.find(value);
  if (weight != weight_values_.end() && found.exact.isNone()) {
    found = materialized(*weight->second, value->meta().dtype);
  }
  return found;
}

void TwinRun::call(const Node& node) {
  if (call_linear(node)) {
    return;
  }
  bool differs = false;
  bool has_weight = false;
  for (const Value* input : node.inputs()) {
    differs = differs || twin(input).differs;
    has_weight = has_weight || twin(input).is_weight;
  }
  std::vector<c10::IValue> exact = evaluate(node, [&](const Value& value) { return twin(&value).exact; });
  std::vector<c10::IValue> rounded = exact;
  if (differs) {
    const auto argument = has_weight ? activation_argument(node) : std::nullopt;
    const Value* activation = argument ? node.args().at(*argument).value() : nullptr;
    rounded = evaluate(node, [&](const Value& value) {
      const c10::IValue& given = twin(&value).rounded;
      return &value == activation ? c10::IValue(as_activation(given.toTensor())) : given;
    });
  }
  bind(node, std::move(exact), std::move(rounded), differs);
  if (has_weight && !activation_argument(node)) {
    if (const auto result = twins_.find(node.output()); result != twins_.end()) {
      result->second.is_weight = true;
    }
  }
}

// Rows of the weight are columns of the result, so that a few of them at a time are enough.
bool TwinRun::call_linear(const Node& node) {
  const Value* weight = node.is_call("aten.linear.default") ? node.args().at(1).value() : nullptr;
  const auto found = weight_values_.find(weight);
  if (found == weight_values_.end() || !twins_.at(weight).exact.isNone()) {
    return false;
  }
  const QuantizedMatrix& matrix = *found->second;
  const Twin& x = twin(node.args().at(0).value());
  const at::Tensor exact_x = x.exact.toTensor();
  const at::Tensor rounded_x = as_activation(x.rounded.toTensor());
  at::Tensor bias;
  if (node.args().size() > 2 && node.args()[2].is_value()) {
    bias = twin(node.args()[2].value()).exact.toTensor();
  }
  std::vector<int64_t> sizes = exact_x.sizes().vec();
  sizes.back() = matrix.source().rows;
  const at::Tensor exact = at::empty(sizes, exact_x.options());
  const at::Tensor rounded = at::empty(sizes, exact_x.options());
  matrix.for_each_rows([&](int64_t row, const at::Tensor& values, const QuantizedRows& rows) {
    const int64_t count = values.size(0);
    const auto part = bias.defined() ? std::optional<at::Tensor>(bias.narrow(0, row, count)) : std::nullopt;
    exact.narrow(-1, row, count).copy_(at::linear(exact_x, values.to(exact_x.scalar_type()), part));
    const at::Tensor rounded_values = dequantized(matrix, rows, values.sizes()).to(exact_x.scalar_type());
    rounded.narrow(-1, row, count).copy_(at::linear(rounded_x, rounded_values, part));
  });
  bind(node, {exact}, {rounded}, true);
  return true;
}

void TwinRun::bind(const Node& node, std::vector<c10::IValue> exact, std::vector<c10::IValue> rounded, bool differs) {
  for (size_t i = 0; i < node.outputs().size(); ++i) {
    const Value* output = node.outputs()[i];
    const auto& elements = output->elements();
    for (size_t item = 0; item < elements.size(); ++item) {
      twins_.insert_or_assign(elements[item], Twin{exact[i].toTensorVector().at(item),
                                                   rounded[i].toTensorVector().at(item), differs, false});
    }
    if (output->has_users()) {
      twins_.insert_or_assign(output, Twin{std::move(exact[i]), std::move(rounded[i]), differs, false});
    }
  }
}

void TwinRun::release_inputs(const Node& node) {
  const std::vector<Value*> inputs = node.inputs();
  for (const Value* input : std::set<const Value*>(inputs.begin(), inputs.end())) {
    if (++released_[input] == input->user_count()) {
      twins_.erase(input);
    }
  }
}

std::vector<OutputError> TwinRun::errors() {
  std::vector<OutputError> errors;
  const std::vector<std::string> paths = program_.out_spec.leaf_paths();
  size_t leaf = 0;
  for (const OutputSpec& spec : program_.signature.outputs) {
    if (spec.kind != OutputSpec::Kind::kUserOutput && spec.kind != OutputSpec::Kind::kLossOutput) {
      continue;
    }
    const std::string path = leaf < paths.size() ? paths[leaf] : "";
    ++leaf;
    if (!spec.argument.is_value() || !twin(spec.argument.value()).exact.isTensor()) {
      continue;
    }
    const Twin& output = twin(spec.argument.value());
    const at::Tensor exact = output.exact.toTensor();
    if (!exact.is_floating_point() || exact.numel() == 0) {
      continue;
    }
    const at::Tensor difference = output.rounded.toTensor().to(c10::kDouble).sub(exact.to(c10::kDouble));
    const double norm = at::linalg_vector_norm(exact.to(c10::kDouble)).item<double>();
    const double off = at::linalg_vector_norm(difference).item<double>();
    const double relative = off == 0 ? 0 : off / norm;  // infinite where all is zero and should be
    errors.push_back({path.empty() ? "output" : path, difference.abs().max().item<double>(), relative});
  }
  return errors;
}

}  // namespace

std::vector<OutputError> rounding_errors(const ExportedProgram& program, const QuantizedWeights& weights,
                                         const QuantizationOptions& options) {
  return TwinRun(program, weights, options).run();
}

}  // namespace exporters::onnx
