#include "exporters/onnx/quantize/matrix_source.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/onnx/emit/external_data.h"
#include "exporters/support/error.h"

#include <ATen/ops/empty.h>

#include <cstring>

namespace exporters::onnx {

std::string MatrixSource::key() const {
  const std::string form = fmt::format("{} {} {} {}", rows, columns, transposed, c10::toString(dtype));
  if (const auto* file = std::get_if<WeightSource>(&bytes)) {
    return fmt::format("file {} {} {} {}", file->offset, file->nbytes, form, file->file);
  }
  return fmt::format("memory {} {}", memory_identity(std::get<at::Tensor>(bytes)), form);
}

MatrixReader::MatrixReader(const MatrixSource& source)
    : columns_(source.columns),
      rows_(source.rows),
      transposed_(source.transposed),
      stored_dtype_(source.dtype),
      dtype_(source.dtype) {
  if (const auto* file = std::get_if<WeightSource>(&source.bytes)) {
    file_ = *file;
  } else {
    const at::Tensor& tensor = std::get<at::Tensor>(source.bytes);
    const DeferredConversion* conversion = deferred_conversion(tensor);
    dtype_ = tensor.scalar_type();
    if (conversion == nullptr || conversion->parts.size() > 1) {
      const at::Tensor whole = undeferred(tensor);
      tensor_ = transposed_ ? whole.t() : whole;
      return;
    }
    file_ = conversion->parts.front().source;
    stored_dtype_ = conversion->parts.front().stored;
  }
  mapped_ = MappedFile::open(file_.file);
  ensure(file_.nbytes == static_cast<uint64_t>(rows_ * columns_) * c10::elementSize(stored_dtype_),
         "'{}' has {} bytes, not those of a matrix [{}, {}]", file_.key, file_.nbytes, rows_, columns_);
}

at::Tensor MatrixReader::read(int64_t begin, int64_t count) const {
  const at::Tensor values = mapped_ == nullptr ? tensor_.narrow(0, begin, count) : stored(begin, count);
  return values.to(dtype_).to(c10::kFloat).contiguous();
}

// Copied first: bytes of a file may lie at addresses that are no multiple of the element's size.
at::Tensor MatrixReader::stored(int64_t begin, int64_t count) const {
  const auto element = static_cast<int64_t>(c10::elementSize(stored_dtype_));
  const auto copy = [&](int64_t from, int64_t elements, void* to) {
    const auto nbytes = static_cast<uint64_t>(elements * element);
    std::memcpy(to, mapped_->bytes(file_.offset + static_cast<uint64_t>(from * element), nbytes).data(), nbytes);
  };
  at::Tensor values = at::empty({transposed_ ? columns_ : count, transposed_ ? count : columns_}, stored_dtype_);
  auto* bytes = static_cast<std::byte*>(values.mutable_data_ptr());
  if (!transposed_) {
    copy(begin * columns_, count * columns_, bytes);
    mapped_->advise_dont_need(file_.offset + static_cast<uint64_t>(begin * columns_ * element), values.nbytes());
    return values;
  }
  for (int64_t column = 0; column < columns_; ++column) {
    copy(column * rows_ + begin, count, bytes + column * count * element);
  }
  mapped_->advise_dont_need(file_.offset, file_.nbytes);
  return values.t();
}

}  // namespace exporters::onnx
