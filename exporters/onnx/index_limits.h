#pragma once

#include "exporters/graph/index_limits.h"
#include "exporters/onnx/emit/model.h"

#include <string>

namespace exporters::onnx {

/// ONNX has no field for which values an index input may hold, and ONNX Runtime's Gather counts negative ones from the
/// end. Limits travel in the model's metadata under kIndexLimitsKey as a JSON object, input name →
/// {"limit": 30522, "note": "vocab_size"}, and our runner checks them before each run.
inline constexpr const char* kIndexLimitsKey = "index_limits";

std::string to_metadata(const IndexLimits& limits);
/// By input name. Of a model without the entry: none. Throws Error for an entry that is something else.
IndexLimits index_limits_of(const OnnxMetadata& metadata);

}  // namespace exporters::onnx
