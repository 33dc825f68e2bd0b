#pragma once

#include "exporters/framework/exporter.h"

#include <vector>

namespace exporters::executorch {

/// Makes the cache of a generation's components a part of the program's state: neither an input nor an output of theirs
/// any more. "prefill" begins with an empty cache and leaves in the state what it returned; "decode" works on the state
/// in place. The buffers are called as the cache's leaves ("cache.layers.0.keys") and are the same tensors in both, so
/// that a program that holds both methods has them once. Their batch is that of the samples.
/// Throws Error for other caches than those of a fixed length, and when there is no "prefill", since nothing would
/// empty the cache.
void keep_cache_in_program(std::vector<ComponentExport>& components);

/// Fixes the axes named "batch" to the sample's: state has one batch. Throws Error for one that the config asks to be
/// dynamic by itself.
void fix_batch(AxisLabels& labels, const DynamoConfig& config);

}  // namespace exporters::executorch
