#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/support/byte_sink.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace exporters {

/// A tensor that stands for the values of `source`, which holds them as `stored`, converted to `dtype`. It has a
/// shape, a dtype and the CPU as its device, and no data: whoever writes it converts a piece at a time
/// (write_deferred), whoever computes with it converts the whole (undeferred). Anything else that reads its data gets
/// an error that says so. Throws Error when source.nbytes is not the size of the stored values.
at::Tensor defer_conversion(WeightSource source, c10::ScalarType stored, at::IntArrayRef sizes, c10::ScalarType dtype);

/// Values as a file holds them.
struct StoredValues {
  WeightSource source;
  c10::ScalarType stored;
  friend bool operator==(const StoredValues&, const StoredValues&) = default;
};
/// As above, of several parts, whose values follow each other in the tensor's rows. Throws Error when they are not as
/// many as it has, and for none.
at::Tensor defer_join(std::vector<StoredValues> parts, at::IntArrayRef sizes, c10::ScalarType dtype);

/// What a deferred tensor stands for.
struct DeferredConversion {
  std::vector<StoredValues> parts;  ///< at least one
};
/// nullptr for a tensor that holds data, and for one without a storage.
const DeferredConversion* deferred_conversion(const at::Tensor& tensor);

/// The deferred tensor that `view` is a view of, or is, as one row of elements.
at::Tensor whole_deferred(const at::Tensor& view);

/// The values of a deferred tensor in its dtype; another tensor as it is. Throws Error for a view of a deferred
/// tensor, and when the file cannot be read or is shorter than it was.
at::Tensor undeferred(const at::Tensor& tensor);

/// The same values as bytes, row-major, in pieces of a few megabytes, with no more memory than that.
void write_deferred(const at::Tensor& tensor, const ByteSink& sink);

}  // namespace exporters
