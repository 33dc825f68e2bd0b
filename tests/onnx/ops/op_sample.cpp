#include "tests/onnx/ops/op_sample.h"

#include "exporters/graph/calls.h"
#include "exporters/graph/op_name.h"
#include "exporters/passes/dead_code.h"
#include "exporters/symbolic/expr.h"
#include "tests/onnx/harness.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace exporters::onnx::testing {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> parts;
  for (std::string part; words >> part;) {
    parts.push_back(part);
  }
  return parts;
}

int64_t value_of(const std::string& expression, const SampleSizes& sizes) {
  return Expr::parse(expression).evaluate([&](Symbol symbol) { return sizes.at(symbol.name()); });
}

// ── Tensors ──

at::Tensor rows_of_permutations(const std::vector<int64_t>& sizes, int64_t below) {
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < sizes.size(); ++axis) {
    rows *= sizes[axis];
  }
  std::vector<at::Tensor> parts;
  for (int64_t row = 0; row < rows; ++row) {
    parts.push_back(at::randperm(below, at::kLong).slice(0, 0, sizes.back()));
  }
  return at::stack(parts).reshape(sizes);
}

at::Tensor filled(const SampleTensor& tensor, const SampleSizes& sizes) {
  std::vector<int64_t> shape;
  for (const std::string& size : split(tensor.sizes)) {
    shape.push_back(value_of(size, sizes));
  }
  if (!c10::isIntegralType(tensor.dtype, /*includeBool=*/true)) {
    const at::Tensor values = at::rand(shape, at::kDouble) * (tensor.high - tensor.low) + tensor.low;
    const at::Tensor ordered = tensor.fill == SampleTensor::Fill::kAscending ? std::get<0>(values.sort(-1)) : values;
    return ordered.to(tensor.dtype);
  }
  const int64_t below = value_of(tensor.below, sizes);
  if (tensor.fill == SampleTensor::Fill::kPermutation) {
    return rows_of_permutations(shape, below).to(tensor.dtype);
  }
  const at::Tensor values = at::randint(0, below, shape, at::kLong);
  if (tensor.fill == SampleTensor::Fill::kAscending) {
    // As ends of groups they reach the last row: what ATen gives behind it is not defined.
    values.select(-1, -1).fill_(below - 1);
    return std::get<0>(values.sort(-1)).to(tensor.dtype);
  }
  return values.to(tensor.dtype);
}

template <typename Visit>
void for_each_argument(const std::vector<SampleArg>& args, const Visit& visit) {
  for (const SampleArg& arg : args) {
    visit(arg);
    if (const auto* items = std::get_if<SampleArg::List>(&arg.data)) {
      for_each_argument(*items, visit);
    }
  }
}

// Where a named size is found: which tensor, which axis.
using Places = std::map<std::string, std::pair<size_t, int64_t>>;

// The tensor arguments, and after them those that only carry a size.
std::vector<SampleTensor> inputs_of(const OpSample& sample) {
  std::vector<SampleTensor> inputs;
  std::set<std::string> carried;
  for_each_argument(sample.args, [&](const SampleArg& arg) {
    if (const auto* tensor = std::get_if<SampleTensor>(&arg.data)) {
      inputs.push_back(*tensor);
      for (const std::string& size : split(tensor->sizes)) {
        carried.insert(size);
      }
    }
  });
  for_each_argument(sample.args, [&](const SampleArg& arg) {
    const auto* size = std::get_if<SampleSize>(&arg.data);
    if (size != nullptr && carried.insert(size->name).second) {
      inputs.push_back(f(size->name));
    }
  });
  if (inputs.empty()) {
    inputs.push_back(f("n"));
  }
  return inputs;
}

Places places_of(const std::vector<SampleTensor>& inputs) {
  Places places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<std::string> sizes = split(inputs[i].sizes);
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      places.emplace(sizes[axis], std::pair(i, static_cast<int64_t>(axis)));
    }
  }
  return places;
}

DynamicShapes shapes_of(const std::vector<SampleTensor>& inputs) {
  DynamicShapes shapes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<std::string> sizes = split(inputs[i].sizes);
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      if (Expr::parse(sizes[axis]).is_int()) {
        shapes[exporters::testing::input_name(i)].emplace(static_cast<int64_t>(axis), Dim::Static());
      }
    }
  }
  return shapes;
}

// ── Calls ──

// Arguments in the order of the schema; null where the default counts.
std::vector<const SampleArg*> bound(const OpSample& sample, const c10::FunctionSchema& schema) {
  std::vector<const SampleArg*> result(schema.arguments().size(), nullptr);
  for (size_t i = 0; i < sample.args.size(); ++i) {
    const std::string& name = sample.args[i].name;
    const auto index = name.empty() ? std::optional(static_cast<int>(i)) : schema.argumentIndexWithName(name);
    result.at(static_cast<size_t>(index.value())) = &sample.args[i];
  }
  return result;
}

class StackBuilder {
 public:
  StackBuilder(const Tensors& tensors, Places places) : tensors_(tensors), places_(std::move(places)) {}

  c10::IValue value(const SampleArg& arg, const c10::TypePtr& type) {
    if (const auto optional = type->cast<c10::OptionalType>()) {
      return std::holds_alternative<std::monostate>(arg.data) ? c10::IValue() : value(arg, optional->getElementType());
    }
    if (const auto list = type->cast<c10::ListType>()) {
      return list_value(arg, list->getElementType());
    }
    if (std::holds_alternative<SampleTensor>(arg.data)) return tensors_.at(next_++);
    if (const auto* size = std::get_if<SampleSize>(&arg.data)) {
      const auto [input, axis] = places_.at(size->name);
      return tensors_.at(input).sym_size(axis) * size->factor;
    }
    if (const auto* number = std::get_if<int64_t>(&arg.data)) {
      return type->kind() == c10::TypeKind::FloatType ? c10::IValue(static_cast<double>(*number))
                                                      : c10::IValue(*number);
    }
    if (const auto* number = std::get_if<double>(&arg.data)) return *number;
    if (const auto* flag = std::get_if<bool>(&arg.data)) return *flag;
    if (const auto* text = std::get_if<std::string>(&arg.data)) return *text;
    return static_cast<int64_t>(std::get<c10::ScalarType>(arg.data));
  }

 private:
  c10::IValue list_value(const SampleArg& arg, const c10::TypePtr& element) {
    std::vector<c10::IValue> values;
    for (const SampleArg& item : std::get<SampleArg::List>(arg.data)) {
      values.push_back(value(item, element));
    }
    const bool symbolic = std::any_of(values.begin(), values.end(), [](const auto& each) { return each.isSymInt(); });
    c10::impl::GenericList items(symbolic ? c10::TypePtr(c10::SymIntType::get()) : element);
    for (c10::IValue& each : values) {
      items.push_back(symbolic && each.isInt() ? c10::IValue(c10::SymInt(each.toInt())) : std::move(each));
    }
    return items;
  }

  const Tensors& tensors_;
  Places places_;
  size_t next_ = 0;
};

void add_tensors(const c10::IValue& value, Tensors& tensors) {
  if (value.isTensor()) {
    tensors.push_back(value.toTensor());
  } else {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      tensors.push_back(tensor);
    }
  }
}

// ── The program of one call ──

class CallWriter {
 public:
  CallWriter(const OpSample& sample, ExportedProgram& program)
      : sample_(sample), graph_(*program.graph), program_(program), places_(places_of(inputs_of(sample))) {
    for (size_t i = 0; i < inputs_of(sample).size(); ++i) {
      placeholders_.push_back(graph_.find(exporters::testing::input_name(i)));
    }
  }

  // What the graph gives is given by one call.
  void run() {
    const c10::FunctionSchema& schema = lookup_operator(sample_.op).schema();
    const std::vector<const SampleArg*> args = bound(sample_, schema);
    std::vector<Argument> positional;
    std::vector<std::pair<std::string, Argument>> keywords;
    for (size_t i = 0; i < args.size(); ++i) {
      const c10::Argument& wanted = schema.arguments()[i];
      if (args[i] == nullptr) {
        continue;
      }
      if (!wanted.kwarg_only() && positional.size() == i) {
        positional.push_back(argument(*args[i]));
      } else {
        keywords.emplace_back(wanted.name(), argument(*args[i]));
      }
    }
    Node* node = graph_.call(sample_.op, std::move(positional), std::move(keywords));
    give(node, schema);
    eliminate_dead_code(graph_);
  }

 private:
  Argument argument(const SampleArg& arg) {
    if (std::holds_alternative<std::monostate>(arg.data)) return {};
    if (std::holds_alternative<SampleTensor>(arg.data)) return placeholders_.at(next_++);
    if (const auto* size = std::get_if<SampleSize>(&arg.data)) return size_of(*size);
    if (const auto* items = std::get_if<SampleArg::List>(&arg.data)) {
      Argument::List list;
      for (const SampleArg& item : *items) {
        list.push_back(argument(item));
      }
      return list;
    }
    if (const auto* number = std::get_if<int64_t>(&arg.data)) return *number;
    if (const auto* number = std::get_if<double>(&arg.data)) return *number;
    if (const auto* flag = std::get_if<bool>(&arg.data)) return *flag;
    if (const auto* text = std::get_if<std::string>(&arg.data)) return *text;
    return std::get<c10::ScalarType>(arg.data);
  }

  Argument size_of(const SampleSize& size) {
    const auto [input, axis] = places_.at(size.name);
    const Expr expr = placeholders_.at(input)->meta().sizes.at(static_cast<size_t>(axis)) * size.factor;
    Node* node = graph_.call("aten.sym_size.int", {placeholders_[input], axis});
    Value* value = graph_.add_output(node, Value::Kind::kSymInt);
    value->sym() = placeholders_[input]->meta().sizes[static_cast<size_t>(axis)];
    if (size.factor != 1) {
      value = graph_.add_output(graph_.call("_operator.mul", {value, size.factor}), Value::Kind::kSymInt);
      value->sym() = expr;
    }
    return value;
  }

  void give(Node* node, const c10::FunctionSchema& schema) {
    const std::vector<Argument> former = graph_.outputs();
    const bool is_list = schema.returns().at(0).type()->kind() == c10::TypeKind::ListType;
    Value* list = is_list ? graph_.add_output(node, Value::Kind::kTensorList) : nullptr;
    std::vector<Argument> given;
    for (const Argument& output : former) {
      Value* value = is_list ? graph_.add_element(list) : graph_.add_output(node);
      value->meta() = output.value()->meta();
      given.emplace_back(value);
    }
    for (size_t i = given.size(); !is_list && i < schema.returns().size(); ++i) {
      graph_.add_output(node, Value::Kind::kNone);
    }
    graph_.set_outputs(given);
    for (size_t i = 0; i < given.size(); ++i) {
      program_.signature.outputs.at(i).argument = given[i];
    }
  }

  const OpSample& sample_;
  Graph& graph_;
  ExportedProgram& program_;
  std::vector<Value*> placeholders_;
  Places places_;
  size_t next_ = 0;
};

}  // namespace

const OpSamples& op_samples() {
  static const OpSamples all = [] {
    OpSamples joined;
    for (const auto family : {elementwise_samples, view_samples, index_samples, reduce_samples, nn_samples}) {
      const OpSamples samples = family();
      joined.insert(joined.end(), samples.begin(), samples.end());
    }
    return joined;
  }();
  return all;
}

std::vector<SampleSizes> sizes_of(const OpSample& sample) {
  const auto sizes = [&](int64_t n, int64_t m, int64_t k) {
    return SampleSizes{
        {"n", std::max(n, sample.least)}, {"m", std::max(m, sample.least)}, {"k", std::max(k, sample.least)}};
  };
  return {sizes(4, 3, 5), sizes(7, 2, 6), sizes(1, 1, 1)};
}

Tensors tensors_of(const OpSample& sample, const SampleSizes& sizes) {
  Tensors tensors;
  for (const SampleTensor& tensor : inputs_of(sample)) {
    tensors.push_back(filled(tensor, sizes));
  }
  return tensors;
}

Tensors call_op(const OpSample& sample, const Tensors& tensors) {
  const c10::OperatorHandle op = lookup_operator(sample.op);
  const std::vector<const SampleArg*> args = bound(sample, op.schema());
  StackBuilder builder(tensors, places_of(inputs_of(sample)));
  torch::jit::Stack stack;
  for (size_t i = 0; i < args.size(); ++i) {
    const c10::Argument& wanted = op.schema().arguments()[i];
    stack.push_back(args[i] == nullptr ? wanted.default_value().value() : builder.value(*args[i], wanted.type()));
  }
  op.callBoxed(stack);
  Tensors results;
  for (const c10::IValue& value : stack) {
    add_tensors(value, results);
  }
  results.resize(sample.used.value_or(results.size()));
  return results;
}

ExportedProgram program_of(const OpSample& sample) {
  const Tensors tensors = tensors_of(sample, sizes_of(sample).front());
  ExportedProgram program =
      traced([&](const Tensors& t) { return call_op(sample, t); }, tensors, shapes_of(inputs_of(sample)));
  bool is_whole = false;
  for_each_call(*program.graph, [&](const Node& node) { is_whole = is_whole || node.target() == sample.op; });
  if (!is_whole) {
    CallWriter(sample, program).run();
  }
  return program;
}

}  // namespace exporters::onnx::testing
