#pragma once

namespace exporters::pt2 {

/// Registers the operators that Python's transformers adds to torch and that programs exported from it call, with CPU
/// kernels; those that the process has already are left alone. Once is enough, more does nothing. Thread-safe.
void register_transformers_ops();

}  // namespace exporters::pt2
