#pragma once

#include "exporters/graph/exported_program.h"
#include "tests/support/tensor_forward.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Calls of ATen ops as data: an op, and arguments whose sizes are expressions over the named sizes n, m and k.
namespace exporters::onnx::testing {

/// A tensor argument. Sizes are separated by spaces ("n 3 2*m"); axes of plain numbers are static in a trace.
struct SampleTensor {
  enum class Fill { kUniform, kPermutation, kAscending };

  std::string sizes;
  c10::ScalarType dtype = c10::ScalarType::Float;
  double low = -2;  ///< of floats
  double high = 2;
  std::string below = "2";     ///< of integers, which are at least 0: an expression
  Fill fill = Fill::kUniform;  ///< of the last axis: kPermutation gives no integer twice
};

/// The size of a tensor argument as a number that a trace does not know.
struct SampleSize {
  std::string name;
  int64_t factor = 1;
};

/// One argument: positional, or by its name in the op's schema.
struct SampleArg {
  using List = std::vector<SampleArg>;
  using Data =
      std::variant<std::monostate, SampleTensor, SampleSize, int64_t, double, bool, std::string, c10::ScalarType, List>;
  SampleArg() = default;                                      // None
  SampleArg(SampleTensor value) : data(std::move(value)) {}   // NOLINT(google-explicit-constructor)
  SampleArg(SampleSize value) : data(std::move(value)) {}     // NOLINT
  SampleArg(int value) : data(int64_t{value}) {}              // NOLINT
  SampleArg(double value) : data(value) {}                    // NOLINT
  SampleArg(bool value) : data(value) {}                      // NOLINT
  SampleArg(const char* value) : data(std::string(value)) {}  // NOLINT
  SampleArg(c10::ScalarType value) : data(value) {}           // NOLINT
  SampleArg(List value) : data(std::move(value)) {}           // NOLINT

  Data data;
  std::string name;
};

inline SampleTensor f(std::string sizes, double low = -2, double high = 2) {
  return {std::move(sizes), c10::ScalarType::Float, low, high};
}
/// Integers 0 ≤ x < below.
inline SampleTensor ints(std::string sizes, std::string below, c10::ScalarType dtype = c10::ScalarType::Long) {
  return {std::move(sizes), dtype, 0, 0, std::move(below)};
}
inline SampleTensor bools(std::string sizes) { return ints(std::move(sizes), "2", c10::ScalarType::Bool); }
/// Different integers 0 ≤ x < below in each row.
inline SampleTensor permutation(std::string sizes, std::string below) {
  SampleTensor tensor = ints(std::move(sizes), std::move(below));
  tensor.fill = SampleTensor::Fill::kPermutation;
  return tensor;
}
/// The same with its rows in ascending order.
inline SampleTensor ascending(SampleTensor tensor) {
  tensor.fill = SampleTensor::Fill::kAscending;
  return tensor;
}
inline SampleTensor of(c10::ScalarType dtype, SampleTensor tensor) {
  tensor.dtype = dtype;
  return tensor;
}
inline SampleSize size(std::string name, int64_t factor = 1) { return {std::move(name), factor}; }
template <typename... Items>
SampleArg list(Items... items) {
  return SampleArg(SampleArg::List{SampleArg(std::move(items))...});
}
inline SampleArg none() { return {}; }
inline SampleArg kw(std::string name, SampleArg value) {
  value.name = std::move(name);
  return value;
}

/// Named sizes of one run.
using SampleSizes = std::map<std::string, int64_t>;

struct OpSample {
  std::string op;  ///< with its overload: "aten.add.Tensor"
  std::vector<SampleArg> args;
  int64_t least = 1;                  ///< of every named size
  std::optional<size_t> used = {};    ///< how many outputs are taken, the first ones; by default all
  bool shapes_only = false;           ///< values are random or undefined
  double tolerance = 1e-5;            ///< float32 sums in another order
  std::optional<int64_t> opset = {};  ///< the only one the sample is for
  std::string refused = {};           ///< the translation throws Error with this text in it

  OpSample at_least(int64_t size) const {
    return with([&](OpSample& s) { s.least = size; });
  }
  OpSample first_outputs(size_t count) const {
    return with([&](OpSample& s) { s.used = count; });
  }
  OpSample without_values() const {
    return with([](OpSample& s) { s.shapes_only = true; });
  }
  OpSample within(double allowed) const {
    return with([&](OpSample& s) { s.tolerance = allowed; });
  }
  OpSample at_opset(int64_t number) const {
    return with([&](OpSample& s) { s.opset = number; });
  }
  OpSample is_refused(std::string text) const {
    return with([&](OpSample& s) { s.refused = std::move(text); });
  }

 private:
  template <typename Change>
  OpSample with(const Change& change) const {
    OpSample copy = *this;
    change(copy);
    return copy;
  }
};

using OpSamples = std::vector<OpSample>;
OpSamples elementwise_samples();
OpSamples view_samples();
OpSamples index_samples();
OpSamples reduce_samples();
OpSamples nn_samples();
/// All of these.
const OpSamples& op_samples();

/// The sizes that a sample is traced at, then others.
std::vector<SampleSizes> sizes_of(const OpSample& sample);
/// Random tensors: the tensor arguments in order, then, where a size is of none of them, one that has it.
exporters::testing::Tensors tensors_of(const OpSample& sample, const SampleSizes& sizes);
/// Calls the op on such tensors: the real op, or, with fake ones, the one that a trace records.
exporters::testing::Tensors call_op(const OpSample& sample, const exporters::testing::Tensors& tensors);
/// The sample's program: the trace of the call, or where a trace takes the op apart, the one call of it, as programs
/// that Python wrote have it.
ExportedProgram program_of(const OpSample& sample);

}  // namespace exporters::onnx::testing
