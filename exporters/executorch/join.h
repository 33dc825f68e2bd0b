#pragma once

#include "exporters/executorch/emit/memory_plan.h"
#include "exporters/executorch/emit/program.h"

#include <span>
#include <string>

namespace exporters::executorch {

/// A program of one method on its way into one of several.
struct MethodPart {
  std::string name;  ///< of the method in the joined program
  const Program* program = nullptr;
  MethodMemory memory;
};

/// One program with a method for each part. Constants, blobs and data that parts have in common are there once, and so
/// is state of one name. Throws Error when a part has another number of methods than one, and when a method would read
/// as a constant what another one writes to.
Program join_programs(std::span<const MethodPart> parts);

}  // namespace exporters::executorch
