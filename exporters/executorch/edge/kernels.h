#pragma once

#include "exporters/graph/graph.h"

#include <ATen/core/function_schema.h>

#include <span>
#include <string>
#include <string_view>

namespace exporters::executorch {

/// A kernel of ExecuTorch's runtime, with the schema of ATen's out= overload that it implements.
struct Kernel {
  std::string name;      ///< "aten::add"
  std::string overload;  ///< "out"; empty for the default one
  const c10::FunctionSchema* schema = nullptr;
};

/// Every kernel that the runtime of the supported version has, sorted: "aten::add.out".
std::span<const std::string_view> kernel_names();
bool has_kernel(std::string_view name);

/// The kernel that computes a functional ATen call: that of the op's out= overload, or for a number in the place of a
/// tensor ("aten.add.Tensor(x, 1)") that of the overload for numbers. Null where there is none.
const Kernel* find_kernel(const Node& node);

/// The kernel of an operation on sizes ("_operator.add"), "executorch_prim::add.Scalar"; empty where there is none.
std::string_view find_sym_kernel(std::string_view target);

}  // namespace exporters::executorch
