#include "exporters/passes/inplace_ops.h"

#include "exporters/graph/op_name.h"
#include "exporters/interpreter/evaluate.h"
#include "exporters/passes/op_facts.h"
#include "exporters/support/error.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <unordered_map>

namespace exporters {
namespace {

// Where the name without its underscore is not it.
const std::unordered_map<std::string_view, std::string_view>& renamed() {
  static const std::unordered_map<std::string_view, std::string_view> table = {
      {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
      {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
      {"aten.float_power_.Tensor", "aten.float_power.Tensor_Tensor"},
      {"aten.float_power_.Scalar", "aten.float_power.Tensor_Scalar"},
      {"aten.floor_divide_.Tensor", "aten.floor_divide.default"},
      {"aten.ldexp_.default", "aten.ldexp.Tensor"},
      {"aten.__iand__.Tensor", "aten.bitwise_and.Tensor"},
      {"aten.__iand__.Scalar", "aten.bitwise_and.Scalar"},
      {"aten.__ior__.Tensor", "aten.bitwise_or.Tensor"},
      {"aten.__ior__.Scalar", "aten.bitwise_or.Scalar"},
      {"aten.__ixor__.Tensor", "aten.bitwise_xor.Tensor"},
      {"aten.__ixor__.Scalar", "aten.bitwise_xor.Scalar"},
      {"aten.__ilshift__.Tensor", "aten.__lshift__.Tensor"},
      {"aten.__ilshift__.Scalar", "aten.__lshift__.Scalar"},
      {"aten.__irshift__.Tensor", "aten.__rshift__.Tensor"},
      {"aten.__irshift__.Scalar", "aten.__rshift__.Scalar"},
      {"aten.normal_.default", "aten.normal_functional.default"},
      {"aten.bernoulli_.float", "aten.bernoulli.p"},
      {"aten.transpose_.default", "aten.transpose.int"},
  };
  return table;
}

struct Special {
  std::string_view name;  ///< without overload
  Mutation mutation;
  const char* refusal;
};

constexpr const char* kChangesStorage = "it gives the tensor other memory, which a traced program cannot express";
constexpr const char* kSparse = "it is for sparse tensors";

constexpr Special kSpecial[] = {
    {"aten.requires_grad_", Mutation::kNothing, nullptr},
    {"aten.detach_", Mutation::kNothing, nullptr},
    {"aten.retain_grad", Mutation::kNothing, nullptr},
    {"aten.record_stream", Mutation::kNothing, nullptr},
    {"aten.unsqueeze_", Mutation::kMetadata, nullptr},
    {"aten.squeeze_", Mutation::kMetadata, nullptr},
    {"aten.t_", Mutation::kMetadata, nullptr},
    {"aten.transpose_", Mutation::kMetadata, nullptr},
    {"aten.swapaxes_", Mutation::kMetadata, nullptr},
    {"aten.swapdims_", Mutation::kMetadata, nullptr},
    {"aten.as_strided_", Mutation::kMetadata, nullptr},
    {"aten.set_", Mutation::kMemory, nullptr},
    {"aten.set_data", Mutation::kMemory, kChangesStorage},
    {"aten.resize_", Mutation::kMemory, nullptr},
    {"aten.resize_as_", Mutation::kMemory, nullptr},
    {"aten.resize_as_sparse_", Mutation::kMemory, kSparse},
    {"aten.sparse_resize_", Mutation::kMemory, kSparse},
    {"aten.sparse_resize_and_clear_", Mutation::kMemory, kSparse},
};

// Their results have the dtype of the tensor that is written to, whatever the other inputs are.
constexpr std::string_view kKeepsDtype[] = {
    "aten.index_put",    "aten.index_copy",     "aten.index_add",      "aten.index_fill",
    "aten.index_reduce", "aten.scatter",        "aten.scatter_add",    "aten.masked_fill",
    "aten.put",          "aten.masked_scatter", "aten.scatter_reduce", "aten._index_put_impl",
};

std::string_view without_overload(std::string_view target) { return target.substr(0, target.rfind('.')); }

[[noreturn]] void refuse(const Node& node, const std::string& reason) {
  throw Error("The op cannot be made functional: " + reason, node.describe(),
              "Replace it in the model, or with a patch of that op.");
}

bool same_type(const c10::Argument& a, const c10::Argument& b) { return *a.real_type() == *b.real_type(); }

bool is_written(const c10::Argument& formal) {
  return formal.alias_info() != nullptr && formal.alias_info()->isWrite();
}

bool corresponds(const c10::FunctionSchema& mutating, const c10::FunctionSchema& functional) {
  const auto& a = mutating.arguments();
  const auto& b = functional.arguments();
  return !functional.is_mutable() && functional.returns().size() == 1 && a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), same_type);
}

std::string derived_target(const std::string& target) {
  if (const auto other = renamed().find(target); other != renamed().end()) {
    return std::string(other->second);
  }
  const std::string_view name = without_overload(target);
  return name.ends_with('_') ? std::string(name.substr(0, name.size() - 1)) + target.substr(name.size()) : target;
}

// ── out= variants ──

// The same arguments but for the outputs, of which each is a result. A factory has a dtype and a device besides, which
// its out= variant takes from the output.
bool gives_what_is_written(const c10::FunctionSchema& writing, const c10::FunctionSchema& functional) {
  const size_t outputs = writing.returns().size();
  const size_t inputs = writing.arguments().size() - outputs;
  const auto& a = writing.arguments();
  const auto& b = functional.arguments();
  return !functional.is_mutable() && functional.returns().size() == outputs && b.size() >= inputs &&
         std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(inputs), b.begin(),
                    [](const c10::Argument& x, const c10::Argument& y) {
                      return x.name() == y.name() && x.kwarg_only() == y.kwarg_only() && same_type(x, y);
                    }) &&
         std::all_of(b.begin() + static_cast<std::ptrdiff_t>(inputs), b.end(),
                     [](const c10::Argument& more) { return more.default_value().has_value(); }) &&
         std::none_of(functional.returns().begin(), functional.returns().end(),
                      [](const c10::Argument& result) { return result.alias_info() != nullptr; });
}

// Of all overloads of the op the one with the fewest arguments that are not given.
c10::OperatorHandle functional_overload(const Node& node) {
  const c10::FunctionSchema& writing = lookup_operator(node.target()).schema();
  std::optional<c10::OperatorHandle> best;
  for (const auto& overload : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(writing.name()))) {
    const c10::FunctionSchema& schema = overload->schema();
    if (!gives_what_is_written(writing, schema) ||
        (best && best->schema().arguments().size() <= schema.arguments().size())) {
      continue;
    }
    if (auto op = c10::Dispatcher::singleton().findSchema(schema.operator_name())) {
      best = std::move(op);
    }
  }
  if (!best) {
    refuse(node, "it is an out= variant of an op without a variant that gives the same results");
  }
  return *best;
}

// ── dtypes ──

at::Tensor meta_tensor(const TensorMeta& meta, const SampleSize& sample) {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  const TensorMeta dense = contiguous_meta(meta);
  std::transform(dense.sizes.begin(), dense.sizes.end(), std::back_inserter(sizes), sample);
  std::transform(dense.strides.begin(), dense.strides.end(), std::back_inserter(strides), sample);
  return at::empty_strided(sizes, strides, at::TensorOptions(meta.dtype).device(at::kMeta));
}

c10::IValue stand_in(const Value& value, const SampleSize& sample) {
  switch (value.kind()) {
    case Value::Kind::kTensor:
      return meta_tensor(value.meta(), sample);
    case Value::Kind::kSymInt:
      return sample(value.sym());
    case Value::Kind::kSymFloat:
      return 1.0;
    case Value::Kind::kSymBool:
      return true;
    case Value::Kind::kTensorList: {
      std::vector<at::Tensor> tensors;
      for (const Value* element : value.elements()) {
        tensors.push_back(meta_tensor(element->meta(), sample));
      }
      return tensors;
    }
    default:
      return {};
  }
}

bool inputs_share_dtype(const Node& node, c10::ScalarType dtype) {
  const std::vector<Value*> inputs = node.inputs();
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](const Value* value) { return !value->is_tensor() || value->meta().dtype == dtype; });
}

// What the op gives is asked of the op itself, on tensors without data: a functional op promotes as the in-place one
// cannot. Empty when it cannot be asked.
std::vector<c10::IValue> results_without_data(const Node& node, const SampleSize& sample, Error* problem) {
  try {
    return evaluate(node, [&](const Value& value) { return stand_in(value, sample); });
  } catch (const Error& error) {
    *problem = error;
    return {};
  }
}

std::vector<c10::ScalarType> dtypes_of(const std::vector<c10::IValue>& results) {
  std::vector<c10::ScalarType> dtypes;
  for (const c10::IValue& result : results) {
    if (result.isTensor()) {
      dtypes.push_back(result.toTensor().scalar_type());
    } else {
      for (const at::Tensor& tensor : result.toTensorVector()) {
        dtypes.push_back(tensor.scalar_type());
      }
    }
  }
  return dtypes;
}

// In the order of the results; `written` are the tensors that they replace.
std::vector<c10::ScalarType> result_dtypes(const Node& node, const std::vector<TensorMeta>& written,
                                           const SampleSize& sample) {
  std::vector<c10::ScalarType> own;
  for (const TensorMeta& meta : written) {
    own.push_back(meta.dtype);
  }
  const std::string_view name = without_overload(node.target());
  if (std::find(std::begin(kKeepsDtype), std::end(kKeepsDtype), name) != std::end(kKeepsDtype)) {
    return own;
  }
  Error problem("");
  const std::vector<c10::ScalarType> asked = dtypes_of(results_without_data(node, sample, &problem));
  if (asked.size() == own.size()) {
    return asked;
  }
  if (std::all_of(own.begin(), own.end(), [&](c10::ScalarType dtype) { return inputs_share_dtype(node, dtype); })) {
    return own;
  }
  throw Error("The dtype of the functional form of an in-place op is not known: " + problem.message(), node.describe());
}

// ── Normal forms ──

Value* cast(Emit& emit, Value* value, c10::ScalarType dtype) {
  if (value->meta().dtype == dtype) {
    return value;
  }
  TensorMeta meta = dense_meta(value->meta());
  meta.dtype = dtype;
  return emit.call("aten._to_copy.default", {value}, meta, {{"dtype", dtype}});
}

Value* full_like(Emit& emit, Value* self, const Argument& number) {
  return emit.call("aten.full_like.default", {self, number}, dense_meta(self->meta()));
}

// The source, in the dtype and shape of what it is copied to.
Value* copied(Emit& emit, const Node& node, bool owns_memory) {
  Value* self = node.arg(0).value();
  if (!node.arg(1).is_value() || !node.arg(1).value()->is_tensor()) {
    return full_like(emit, self, node.arg(1));
  }
  Value* source = node.arg(1).value();
  ensure(source->meta().device == self->meta().device, "{} copies from {} to {}, which cannot be made functional",
         node.describe(), source->meta().device.str(), self->meta().device.str());
  Value* value = cast(emit, source, self->meta().dtype);
  bool is_own = value != source;
  if (value->meta().sizes != self->meta().sizes) {
    TensorMeta meta = contiguous_meta(self->meta());
    meta.strides.assign(meta.sizes.size(), Expr(0));
    const size_t missing = meta.sizes.size() - value->meta().sizes.size();
    for (size_t axis = missing; axis < meta.sizes.size(); ++axis) {
      const bool repeated = value->meta().sizes[axis - missing] != meta.sizes[axis];
      meta.strides[axis] = repeated ? Expr(0) : value->meta().strides[axis - missing];
    }
    value = emit.call("aten.expand_as.default", {value, self}, meta);
    is_own = false;
  }
  if (owns_memory && !is_own) {
    value = emit.call("aten.clone.default", {value}, contiguous_meta(self->meta()),
                      {{"memory_format", c10::MemoryFormat::Contiguous}});
  }
  return value;
}

// Elements of a diagonal lie at equal distances in the flattened tensor; without `wrap` they end where rows that have a
// diagonal element end.
Value* diagonal_filled(Emit& emit, const Node& node) {
  Value* self = node.arg(0).value();
  const int64_t rank = self->meta().dim();
  const auto bound = bind_arguments(node, lookup_operator(node.target()).schema());
  const bool wraps = bound[2] != nullptr && *bound[2] == Argument(true);
  std::vector<Argument> strides(static_cast<size_t>(rank), Argument(1));  // of the tensor without gaps
  for (int64_t axis = rank - 1; axis-- > 0;) {
    strides[axis] = emit.product(strides[axis + 1], emit.size(self, axis + 1));
  }
  Argument step = 0;
  for (const Argument& stride : strides) {
    step = emit.sum(step, stride);
  }
  const Argument count = emit.product(strides[0], emit.size(self, 0));
  const Argument end = wraps || rank != 2 ? count : emit.product(strides[0], strides[0]);

  TensorMeta flat_meta = self->meta();
  flat_meta.sizes = {self->meta().numel()};
  flat_meta = contiguous_meta(flat_meta);
  Value* flat = emit.call("aten.reshape.default", {self, Argument::List{count}}, flat_meta);
  TensorMeta diagonal_meta = flat_meta;
  const Expr reach = min(expr_of(end), flat_meta.sizes[0]);
  diagonal_meta.sizes = {ceildiv(reach, expr_of(step))};
  Value* diagonal = emit.call("aten.slice.Tensor", {flat, 0, 0, end, step}, diagonal_meta);
  Value* filled = emit.call("aten.full_like.default", {diagonal, node.arg(1)}, contiguous_meta(diagonal_meta));
  Value* written = emit.call("aten.slice_scatter.default", {flat, filled, 0, 0, end, step}, flat_meta);
  return emit.call("aten.reshape.default", {written, emit.sizes(self)}, contiguous_meta(self->meta()));
}

std::optional<Value*> normal_form(Emit& emit, const Node& node, bool owns_memory) {
  Value* self = node.arg(0).value();
  const bool takes_value = node.target() == "aten.copy_.default" || node.target() == "aten.fill_.Scalar" ||
                           node.target() == "aten.fill_diagonal_.default";
  ensure(!takes_value || node.arg_count() > 1, "{} takes by keyword what it writes", node.describe());
  if (node.target() == "aten.copy_.default") {
    return copied(emit, node, owns_memory);
  }
  if (node.target() == "aten.fill_.Scalar") {
    return full_like(emit, self, node.arg(1));
  }
  if (node.target() == "aten.fill_diagonal_.default") {
    return diagonal_filled(emit, node);
  }
  if (node.target() == "aten.zero_.default") {
    return emit.call("aten.zeros_like.default", {self}, dense_meta(self->meta()));
  }
  return std::nullopt;
}

}  // namespace

Mutation mutation_of(const Node& node) {
  const std::string_view name = without_overload(node.target());
  for (const Special& special : kSpecial) {
    if (special.name == name) {
      if (special.refusal != nullptr) {
        refuse(node, special.refusal);
      }
      return special.mutation;
    }
  }
  if (updates_statistics(node)) {
    refuse(node, "it is in training mode and updates running statistics; export the model in evaluation mode");
  }
  const auto& formals = lookup_operator(node.target()).schema().arguments();
  Mutation mutation = Mutation::kValue;
  for (size_t i = 0; i < formals.size(); ++i) {
    if (!is_written(formals[i])) {
      continue;
    }
    const c10::TypeKind kind = formals[i].type()->kind();
    if (formals[i].is_out() && kind == c10::TypeKind::TensorType) {
      mutation = Mutation::kOutputs;
    } else if (i == 0 && kind == c10::TypeKind::ListType) {
      mutation = Mutation::kList;
    } else if (i != 0 || kind != c10::TypeKind::TensorType) {
      refuse(node, "it writes to its argument '" + formals[i].name() + "'");
    }
  }
  return mutation;
}

std::vector<Value*> written_tensors(const Node& node, Mutation mutation) {
  std::vector<Value*> tensors;
  auto add = [&](const Argument* argument) {
    const auto* value = argument != nullptr ? argument->get_if<Value*>() : nullptr;
    if (value == nullptr || !(*value)->is_tensor()) {
      refuse(node, "it does not write to a tensor of the program");
    }
    tensors.push_back(*value);
  };
  const auto& formals = lookup_operator(node.target()).schema().arguments();
  const std::vector<const Argument*> bound = bind_arguments(node, lookup_operator(node.target()).schema());
  if (mutation == Mutation::kOutputs) {
    for (size_t i = 0; i < formals.size(); ++i) {
      if (is_written(formals[i])) {
        add(bound[i]);
      }
    }
  } else if (mutation != Mutation::kList) {
    add(node.arg_count() > 0 ? &node.arg(0) : nullptr);
  } else if (bound[0] != nullptr && bound[0]->is_list()) {
    for (const Argument& item : bound[0]->list()) {
      add(&item);
    }
  } else if (bound[0] != nullptr && bound[0]->is_value()) {
    tensors = bound[0]->value()->elements();
  }
  return tensors;
}

std::string functional_target(const Node& node) {
  const std::string target = derived_target(node.target());
  const auto functional = find_operator(target);
  if (target == node.target() || !functional ||
      !corresponds(lookup_operator(node.target()).schema(), functional->schema())) {
    refuse(node, "there is no op of the same arguments that gives a new tensor");
  }
  return target;
}

namespace {

using Keywords = std::vector<std::pair<std::string, Argument>>;

// In the dtypes of the tensors that were written to.
std::vector<Value*> cast_all(Emit& emit, const std::vector<Value*>& results, const std::vector<TensorMeta>& written,
                             const SampleSize& sample) {
  const std::vector<c10::ScalarType> dtypes = result_dtypes(*results[0]->node(), written, sample);
  std::vector<Value*> casts;
  for (size_t i = 0; i < results.size(); ++i) {
    results[i]->meta().dtype = dtypes[i];
    casts.push_back(cast(emit, results[i], written[i].dtype));
  }
  return casts;
}

Value* written_value(Emit& emit, const Node& node, bool owns_memory, const SampleSize& sample) {
  if (const auto value = normal_form(emit, node, owns_memory)) {
    return *value;
  }
  const TensorMeta meta = dense_meta(node.arg(0).value()->meta());
  Value* value = emit.call(functional_target(node), node.args(), meta, node.kwargs());
  return cast_all(emit, {value}, {meta}, sample)[0];
}

std::vector<Value*> written_list(Emit& emit, const Node& node, const SampleSize& sample) {
  std::vector<TensorMeta> metas;
  for (const Value* tensor : written_tensors(node, Mutation::kList)) {
    metas.push_back(dense_meta(tensor->meta()));
  }
  if (metas.empty()) {
    return {};
  }
  const Value* list = emit.call_list(functional_target(node), node.args(), metas, node.kwargs());
  return cast_all(emit, list->elements(), metas, sample);
}

bool all_contiguous(const Node& node) {
  const std::vector<Value*> inputs = node.inputs();
  return std::all_of(inputs.begin(), inputs.end(), [](const Value* input) {
    return !input->is_tensor() || input->meta().strides == contiguous_meta(input->meta()).strides;
  });
}

// A factory makes its result in the dtype of the output, not in the one that it would choose.
Keywords without_outputs(const Node& node, const c10::FunctionSchema& writing, const c10::FunctionSchema& functional,
                         c10::ScalarType dtype) {
  Keywords kwargs;
  for (const auto& [name, value] : node.kwargs()) {
    const auto index = writing.argumentIndexWithName(name);
    if (!index || !is_written(writing.arguments()[*index])) {
      kwargs.emplace_back(name, value);
    }
  }
  if (functional.argumentIndexWithName("dtype") && !writing.argumentIndexWithName("dtype")) {
    kwargs.emplace_back("dtype", dtype);
  }
  return kwargs;
}

std::vector<Value*> written_outputs(Emit& emit, const Node& node, const SampleSize& sample) {
  const c10::FunctionSchema& writing = lookup_operator(node.target()).schema();
  const c10::OperatorHandle functional = functional_overload(node);
  std::vector<TensorMeta> metas;
  for (const Value* output : node.outputs()) {
    metas.push_back(contiguous_meta(output->meta()));
  }
  ensure(metas.size() == writing.returns().size(), "{} has {} results, not {}", node.describe(), metas.size(),
         writing.returns().size());
  Node* call = emit.call_many(target_from_op(functional.operator_name()), node.args(), metas,
                              without_outputs(node, writing, functional.schema(), metas[0].dtype));
  std::vector<Value*> results = cast_all(emit, call->outputs(), metas, sample);
  // The output's elements lie in rows; the op's own result would lie as its inputs do.
  for (Value*& result : results) {
    if (!all_contiguous(*call)) {
      result = emit.call("aten.clone.default", {result}, contiguous_meta(result->meta()),
                         {{"memory_format", c10::MemoryFormat::Contiguous}});
    }
  }
  return results;
}

}  // namespace

std::vector<Value*> functional_results(Emit& emit, const Node& node, Mutation mutation, bool owns_memory,
                                       const SampleSize& sample) {
  switch (mutation) {
    case Mutation::kOutputs:
      return written_outputs(emit, node, sample);
    case Mutation::kList:
      return written_list(emit, node, sample);
    default:
      return {written_value(emit, node, owns_memory, sample)};
  }
}

}  // namespace exporters
