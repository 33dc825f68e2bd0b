#include "exporters/executorch/emit/program.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace exporters::executorch {

uint64_t nbytes_of(const Bytes& bytes) {
  if (const auto* source = std::get_if<WeightSource>(&bytes)) {
    return source->nbytes;
  }
  if (const auto* tensor = std::get_if<at::Tensor>(&bytes)) {
    return tensor->nbytes();
  }
  return std::get<std::string>(bytes).size();
}

bool same_bytes(const Bytes& a, const Bytes& b) {
  if (a.index() != b.index()) {
    return false;
  }
  if (const auto* source = std::get_if<WeightSource>(&a)) {
    const auto& other = std::get<WeightSource>(b);
    return source->offset == other.offset && source->nbytes == other.nbytes && source->file == other.file;
  }
  if (const auto* tensor = std::get_if<at::Tensor>(&a)) {
    const auto& other = std::get<at::Tensor>(b);
    const DeferredConversion* deferred = deferred_conversion(*tensor);
    const DeferredConversion* other_deferred = deferred_conversion(other);
    if (deferred != nullptr || other_deferred != nullptr) {
      return deferred != nullptr && other_deferred != nullptr && deferred->parts == other_deferred->parts &&
             tensor->scalar_type() == other.scalar_type();
    }
    return tensor->const_data_ptr() == other.const_data_ptr() && tensor->nbytes() == other.nbytes();
  }
  return std::get<std::string>(a) == std::get<std::string>(b);
}

uint64_t TensorValue::nbytes() const {
  uint64_t result = c10::elementSize(dtype);
  for (const int32_t size : sizes) {
    ensure(size >= 0 && !__builtin_mul_overflow(result, static_cast<uint64_t>(size), &result),
           "a tensor of sizes [{}] has no number of bytes", fmt::join(sizes, ", "));
  }
  return result;
}

TensorValue tensor_value(c10::ScalarType dtype, std::vector<int32_t> sizes, ShapeDynamism dynamism, std::string name) {
  TensorValue value;
  value.dtype = dtype;
  value.dim_order.resize(sizes.size());
  std::iota(value.dim_order.begin(), value.dim_order.end(), uint8_t{0});
  value.sizes = std::move(sizes);
  value.dynamism = dynamism;
  value.name = std::move(name);
  return value;
}

int32_t Method::add(EValue value) {
  values.push_back(std::move(value));
  return static_cast<int32_t>(values.size() - 1);
}

int32_t Method::add_ints(const std::vector<int64_t>& numbers) {
  IntList list;
  for (const int64_t number : numbers) {
    list.values.push_back(add(number));
  }
  return add(std::move(list));
}

int32_t Method::op(std::string_view name, std::string_view overload) {
  const auto known = std::find_if(operators.begin(), operators.end(),
                                  [&](const Operator& op) { return op.name == name && op.overload == overload; });
  if (known != operators.end()) {
    return static_cast<int32_t>(known - operators.begin());
  }
  operators.push_back({std::string(name), std::string(overload)});
  return static_cast<int32_t>(operators.size() - 1);
}

void Method::call(std::string_view name, std::string_view overload, std::vector<int32_t> args) {
  instructions.emplace_back(KernelCall{op(name, overload), std::move(args)});
}

const TensorValue* Method::tensor(int32_t value) const {
  return value >= 0 && static_cast<size_t>(value) < values.size() ? std::get_if<TensorValue>(&values[value]) : nullptr;
}

namespace {

size_t add_unique(std::vector<Bytes>& list, Bytes bytes) {
  const auto known =
      std::find_if(list.begin(), list.end(), [&](const Bytes& other) { return same_bytes(bytes, other); });
  if (known != list.end()) {
    return static_cast<size_t>(known - list.begin());
  }
  list.push_back(std::move(bytes));
  return list.size() - 1;
}

}  // namespace

size_t Program::add_constant(Bytes bytes) { return add_unique(constants, std::move(bytes)); }

size_t Program::add_blob(Bytes bytes) { return add_unique(blobs, std::move(bytes)); }

void Program::add_named_data(NamedData data) {
  const auto known =
      std::find_if(named_data.begin(), named_data.end(), [&](const NamedData& other) { return other.key == data.key; });
  if (known == named_data.end()) {
    named_data.push_back(std::move(data));
    return;
  }
  ensure(nbytes_of(known->bytes) == nbytes_of(data.bytes), "two pieces of data of different sizes are named {}",
         quote(data.key));
}

const Method* Program::method(std::string_view name) const {
  const auto found =
      std::find_if(methods.begin(), methods.end(), [&](const Method& method) { return method.name == name; });
  return found == methods.end() ? nullptr : &*found;
}

}  // namespace exporters::executorch
