#pragma once

#include "exporters/executorch/emit/program.h"

namespace exporters::executorch::xnnpack {

/// Checks what XNNPACK's delegates of a program say where XNNPACK and the runtime trust them: the flatbuffers hold
/// together, constants have the bytes that dims and dtype need, and biases are constants with an element for each
/// output channel. Reads no constants. Throws Error for a damaged blob. Other backends' delegates are not looked at.
void check_delegates(const Program& program);

}  // namespace exporters::executorch::xnnpack
