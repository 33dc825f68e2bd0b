#pragma once

#include "exporters/graph/exported_program.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace exporters {

/// The values that an integer input may hold: 0 to limit - 1.
struct IndexLimit {
  int64_t limit = 0;
  std::string note;  ///< what the limit is: "vocab_size"
  friend bool operator==(const IndexLimit&, const IndexLimit&) = default;
};
/// By input path.
using IndexLimits = std::map<std::string, IndexLimit>;

/// Throws Error that names the input, the value and what is allowed. `indices` is a tensor of int64 or int32 on the
/// CPU; others are not looked at. One pass over the values.
void check_indices(const std::string& input, const at::Tensor& indices, const IndexLimit& limit);

/// Limits that the program itself tells: of inputs whose values, all of them, look up rows of an embedding. Runtimes
/// answer other values in their own ways (some count negative ones from the end), so runners check.
IndexLimits embedding_limits(const ExportedProgram& program);

}  // namespace exporters
