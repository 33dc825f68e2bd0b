#pragma once

#include "exporters/trace/trace.h"

namespace torch::nn {
class Module;
}

namespace exporters {

/// A request with a libtorch module's class name, parameters and buffers; inputs and forward are still to be set.
/// Throws Error when the module, or one inside it, is in training mode: call `module.eval()` first.
TraceRequest request_for(const torch::nn::Module& module);

}  // namespace exporters
