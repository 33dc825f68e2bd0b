#pragma once

#include "exporters/fake/shape_call.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// Computes an op's result metadata from its arguments: reads them from the call and gives the results to it.
using ShapeFunction = std::function<void(ShapeCall&)>;

/// Adds or replaces the shape function of an op: "mylib::op.overload", or "mylib::op" for all its overloads.
/// Thread-safe; takes effect for the ops traced from then on.
void register_shape_function(std::string_view op, ShapeFunction function);

/// The shape function of an overload, or null; an out= overload has the functional one's. The pointer stays valid.
const ShapeFunction* find_shape_function(const c10::OperatorName& op);

/// All registered names, sorted.
std::vector<std::string> shape_function_names();

/// One line of a family's table.
struct ShapeEntry {
  const char* op;
  void (*function)(ShapeCall&);
};

}  // namespace exporters
