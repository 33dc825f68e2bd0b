#include "exporters/passes/inplace_ops.h"

#include "exporters/graph/op_name.h"
#include "exporters/interpreter/evaluate.h"
#include "exporters/passes/op_facts.h"
#include "exporters/support/error.h"

#include <ATen/core/function_schema.h>
#include <ATen/ops/empty_strided.h>

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
    {"aten.set_", Mutation::kValue, kChangesStorage},
    {"aten.set_data", Mutation::kValue, kChangesStorage},
    {"aten.resize_", Mutation::kValue, kChangesStorage},
    {"aten.resize_as_", Mutation::kValue, kChangesStorage},
    {"aten.resize_as_sparse_", Mutation::kValue, kChangesStorage},
    {"aten.sparse_resize_", Mutation::kValue, kChangesStorage},
    {"aten.sparse_resize_and_clear_", Mutation::kValue, kChangesStorage},
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

bool corresponds(const c10::FunctionSchema& mutating, const c10::FunctionSchema& functional) {
  const auto& a = mutating.arguments();
  const auto& b = functional.arguments();
  return !functional.is_mutable() && functional.returns().size() == 1 && a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(),
                    [](const c10::Argument& x, const c10::Argument& y) { return *x.real_type() == *y.real_type(); });
}

std::string derived_target(const std::string& target) {
  if (const auto other = renamed().find(target); other != renamed().end()) {
    return std::string(other->second);
  }
  const std::string_view name = without_overload(target);
  return name.ends_with('_') ? std::string(name.substr(0, name.size() - 1)) + target.substr(name.size()) : target;
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

// The functional op promotes as the in-place one cannot: asked of the op itself, on tensors without data.
c10::ScalarType result_dtype(const Node& node, c10::ScalarType self, const SampleSize& sample) {
  const std::string_view name = without_overload(node.target());
  if (std::find(std::begin(kKeepsDtype), std::end(kKeepsDtype), name) != std::end(kKeepsDtype)) {
    return self;
  }
  try {
    return evaluate(node, [&](const Value& value) { return stand_in(value, sample); })[0].toTensor().scalar_type();
  } catch (const Error& error) {
    if (inputs_share_dtype(node, self)) {
      return self;
    }
    throw Error("The dtype of the functional form of an in-place op is not known: " + error.message(), node.describe());
  }
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

std::optional<Value*> normal_form(Emit& emit, const Node& node, bool owns_memory) {
  Value* self = node.arg(0).value();
  const bool takes_value = node.target() == "aten.copy_.default" || node.target() == "aten.fill_.Scalar";
  ensure(!takes_value || node.arg_count() > 1, "{} takes by keyword what it writes", node.describe());
  if (node.target() == "aten.copy_.default") {
    return copied(emit, node, owns_memory);
  }
  if (node.target() == "aten.fill_.Scalar") {
    return full_like(emit, self, node.arg(1));
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
  for (size_t i = 0; i < formals.size(); ++i) {
    const c10::AliasInfo* alias = formals[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) {
      continue;
    }
    if (formals[i].is_out()) {
      refuse(node, "it is an out= variant; use the variant that gives its result");
    }
    if (i != 0 || formals[i].type()->kind() != c10::TypeKind::TensorType) {
      refuse(node, "it writes to its argument '" + formals[i].name() + "'");
    }
  }
  if (node.arg_count() == 0 || !node.arg(0).is_value() || !node.arg(0).value()->is_tensor()) {
    refuse(node, "it does not write to a tensor of the program");
  }
  return Mutation::kValue;
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

Value* functional_result(Emit& emit, const Node& node, bool owns_memory, const SampleSize& sample) {
  if (const auto value = normal_form(emit, node, owns_memory)) {
    return *value;
  }
  const TensorMeta meta = dense_meta(node.arg(0).value()->meta());
  Value* value = emit.call(functional_target(node), node.args(), meta, node.kwargs());
  value->meta().dtype = result_dtype(*value->node(), meta.dtype, sample);
  return cast(emit, value, meta.dtype);
}

}  // namespace exporters
