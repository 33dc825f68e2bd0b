#pragma once

#include "exporters/executorch/edge/partition.h"
#include "exporters/executorch/emit/program.h"

#include <ATen/core/function_schema.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace exporters::executorch {

/// Plain values of a method under construction, each once. Nothing writes to them.
class PlainValues {
 public:
  explicit PlainValues(Method& method) : method_(method) {}

  int32_t none();
  int32_t boolean(bool value);
  int32_t integer(int64_t value);
  int32_t real(double value);
  int32_t text(std::string value);
  /// None, a bool or a number; None for what the runtime has no value for, such as a string among the inputs.
  int32_t constant(const Argument& argument);

 private:
  Method& method_;
  std::optional<int32_t> none_;
  std::map<bool, int32_t> booleans_;
  std::map<int64_t, int32_t> integers_;
  std::map<double, int32_t> reals_;
};

/// A tensor of the largest sizes that a value of the program can have, without bytes yet.
TensorValue largest_tensor(const EdgeProgram& edge, const Value& value, std::string name = {});

/// The values of a method under construction that a graph has: which index each has there.
class ValueTable {
 public:
  ValueTable(const EdgeProgram& edge, Program& program, Method& method, PlainValues& plain)
      : edge_(edge), program_(program), method_(method), plain_(plain) {}

  /// The index of a value that is there; constants of the program are added when they are first asked for.
  int32_t index(const Value& value);
  /// Of a value, or of a plain one.
  int32_t index(const Argument& argument);
  void bind(const Value& value, int32_t index) { indices_[&value] = index; }

  /// Adds what a call gives: a tensor, a list of tensors, or a number.
  int32_t add_result(const Value& value);
  /// A list of integers, symbolic ones among them: view sizes.
  int32_t integers(const Node& node, const Argument& list);
  /// An argument as the formal of a kernel's schema takes it; null stands for the formal's default.
  int32_t argument(const Node& node, const Argument* argument, const c10::Argument& formal);

 private:
  int32_t tensor_list(const Node& node, const Argument& list, bool is_optional);
  int32_t number_list(const Node& node, const Argument& argument, const c10::Type& element,
                      std::optional<int32_t> count);
  int32_t scalar(const Node& node, const Argument& argument, const c10::Type& type);
  int32_t default_value(const c10::Argument& formal, const Node& node);

  const EdgeProgram& edge_;
  Program& program_;
  Method& method_;
  PlainValues& plain_;
  std::unordered_map<const Value*, int32_t> indices_;
};

}  // namespace exporters::executorch
