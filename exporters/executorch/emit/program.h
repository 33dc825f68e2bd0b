#pragma once

#include "exporters/graph/exported_program.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace exporters::executorch {

/// Bytes that a program carries: a range of another file, a contiguous CPU tensor, or bytes in memory.
using Bytes = std::variant<WeightSource, at::Tensor, std::string>;
uint64_t nbytes_of(const Bytes& bytes);
/// The same range of the same file, the same memory, or equal bytes in memory.
bool same_bytes(const Bytes& a, const Bytes& b);

/// Where a planned tensor lies: the id of a memory area (1: activations; 2: state shared by methods) and the byte in
/// it.
struct Allocation {
  uint32_t memory_id = 1;
  uint64_t offset = 0;
  friend bool operator==(const Allocation&, const Allocation&) = default;
};

/// TensorShapeDynamism of the schema.
enum class ShapeDynamism : int8_t { kStatic = 0, kBounded = 1, kUnbounded = 2 };

/// A tensor among a method's values. What its bytes are follows from `constant` and `allocation`: a constant of the
/// file, planned memory, planned memory with an initial state from the file (both), or memory that somebody gives at
/// run time (neither: inputs and outputs that are not planned, views that et_view fills).
struct TensorValue {
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int32_t> sizes;      ///< for kBounded the largest ones
  std::vector<uint8_t> dim_order;  ///< dimensions from outermost to innermost in memory
  ShapeDynamism dynamism = ShapeDynamism::kStatic;
  std::optional<size_t> constant;  ///< index into Program::constants
  std::optional<Allocation> allocation;
  std::string name;       ///< of an input, output or state as people call it; may be empty
  bool external = false;  ///< a constant that another file (.ptd) has under `name`

  /// Of the largest sizes. Throws Error when that is no number of bytes.
  uint64_t nbytes() const;
  friend bool operator==(const TensorValue&, const TensorValue&) = default;
};

/// A contiguous tensor of these sizes, without bytes yet.
TensorValue tensor_value(c10::ScalarType dtype, std::vector<int32_t> sizes,
                         ShapeDynamism dynamism = ShapeDynamism::kStatic, std::string name = {});

/// Indices of Int values, one for each number, so that sizes computed at run time can be among them.
struct IntList {
  std::vector<int64_t> values;
  friend bool operator==(const IntList&, const IntList&) = default;
};
struct DoubleList {
  std::vector<double> items;
  friend bool operator==(const DoubleList&, const DoubleList&) = default;
};
struct BoolList {
  std::vector<bool> items;
  friend bool operator==(const BoolList&, const BoolList&) = default;
};
/// Indices of Tensor values.
struct TensorList {
  std::vector<int32_t> values;
  friend bool operator==(const TensorList&, const TensorList&) = default;
};
/// Indices of Tensor values; -1 is None.
struct OptionalTensorList {
  std::vector<int32_t> values;
  friend bool operator==(const OptionalTensorList&, const OptionalTensorList&) = default;
};

/// One value of a method; std::monostate is None. Dtypes, layouts and memory formats are ints.
using EValue = std::variant<std::monostate, int64_t, bool, double, TensorValue, std::string, IntList, DoubleList,
                            BoolList, TensorList, OptionalTensorList>;

/// Calls `operators[op]`. `args` are value indices: every argument of the schema, outs included, and the results again.
struct KernelCall {
  int32_t op = 0;
  std::vector<int32_t> args;
  friend bool operator==(const KernelCall&, const KernelCall&) = default;
};
/// Calls `delegates[delegate]` with its inputs, then its outputs.
struct DelegateCall {
  int32_t delegate = 0;
  std::vector<int32_t> args;
  friend bool operator==(const DelegateCall&, const DelegateCall&) = default;
};
struct MoveCall {
  int32_t from = 0;
  int32_t to = 0;
  friend bool operator==(const MoveCall&, const MoveCall&) = default;
};
struct JumpFalseCall {
  int32_t condition = 0;
  int32_t destination = 0;  ///< an instruction of the method
  friend bool operator==(const JumpFalseCall&, const JumpFalseCall&) = default;
};
struct FreeCall {
  int32_t value = 0;
  friend bool operator==(const FreeCall&, const FreeCall&) = default;
};
using Instruction = std::variant<KernelCall, DelegateCall, MoveCall, JumpFalseCall, FreeCall>;

/// "aten::add", "out".
struct Operator {
  std::string name;
  std::string overload;
  std::string str() const { return overload.empty() ? name : name + "." + overload; }
  friend bool operator==(const Operator&, const Operator&) = default;
};

/// A part of a method that a backend runs ("XnnpackBackend").
struct Delegate {
  std::string id;
  size_t blob = 0;  ///< index into Program::blobs
  std::vector<std::pair<std::string, std::string>> compile_specs;
  friend bool operator==(const Delegate&, const Delegate&) = default;
};

/// One entry point.
struct Method {
  std::string name = "forward";
  std::vector<EValue> values;
  std::vector<int32_t> inputs;   ///< values, in the order of the call
  std::vector<int32_t> outputs;  ///< values
  std::vector<Operator> operators;
  std::vector<Delegate> delegates;
  std::vector<Instruction> instructions;
  /// Bytes of each memory area by id; the first is not used.
  std::vector<int64_t> memory_sizes = {0, 0};
  std::string input_tree;   ///< how the inputs nest, as text; may be empty
  std::string output_tree;  ///< likewise

  /// Appends a value and gives its index.
  int32_t add(EValue value);
  /// Appends an Int value for each number and a list of them.
  int32_t add_ints(const std::vector<int64_t>& numbers);
  /// The operator's index; added when new.
  int32_t op(std::string_view name, std::string_view overload);
  void call(std::string_view name, std::string_view overload, std::vector<int32_t> args);

  const TensorValue* tensor(int32_t value) const;  ///< null when the value is something else
  friend bool operator==(const Method&, const Method&) = default;
};

/// A blob that delegates find by name.
struct NamedData {
  std::string key;
  Bytes bytes;
  uint64_t alignment = 1;
};

/// An ExecuTorch program as the file holds it.
struct Program {
  std::vector<Method> methods;
  std::vector<Bytes> constants;
  std::vector<Bytes> blobs;  ///< of delegates
  std::vector<NamedData> named_data;

  /// Index of the constant; equal ones (tied weights) are stored once.
  size_t add_constant(Bytes bytes);
  size_t add_blob(Bytes bytes);
  /// Adds it unless its key is there. Throws Error when the key stands for another number of bytes.
  void add_named_data(NamedData data);

  const Method* method(std::string_view name) const;
};

/// Throws Error that names the method and the value or instruction when an index leaves
/// its list, a value is of a kind that its place does not take, names repeat, a tensor's dim order is no permutation,
/// or an allocation leaves its memory area.
void check(const Program& program);

}  // namespace exporters::executorch
