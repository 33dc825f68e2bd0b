#include "exporters/onnx/quantize/quantized_matrix.h"

#include "exporters/support/error.h"

#include <algorithm>
#include <vector>

namespace exporters::onnx {
namespace {

constexpr uint64_t kAlignment = 64;            // a cache line
constexpr int64_t kPieceElements = 2'000'000;  // 8 MB of float32 at a time

uint64_t aligned(uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// Writes a part at its place.
void write_part(const ByteSink& sink, uint64_t& position, const QuantizedMatrix::Part& part,
                std::span<const std::byte> bytes) {
  ensure(bytes.size() == part.nbytes, "a quantized weight has {} bytes where {} were promised", bytes.size(),
         part.nbytes);
  if (!bytes.empty()) {
    sink.write_zeros(part.offset - position);
    sink.write(bytes);
    position = part.offset + part.nbytes;
  }
}

}  // namespace

QuantizedMatrix::QuantizedMatrix(std::string name, MatrixSource source, const QuantizationFormat& format,
                                 c10::ScalarType scale_dtype)
    : name_(std::move(name)), source_(std::move(source)), format_(format), scale_dtype_(scale_dtype) {
  ensure(scale_dtype == c10::kFloat || scale_dtype == c10::kHalf, "scales of '{}' cannot be of dtype {}", name_,
         c10::toString(scale_dtype));
}

QuantizedMatrix::Part QuantizedMatrix::values() const {
  return {0, static_cast<uint64_t>(source_.rows * format_.value_bytes(source_.columns))};
}

QuantizedMatrix::Part QuantizedMatrix::scales() const {
  const auto count = static_cast<uint64_t>(source_.rows * format_.blocks(source_.columns));
  return {aligned(values().nbytes), count * c10::elementSize(scale_dtype_)};
}

QuantizedMatrix::Part QuantizedMatrix::zero_points() const {
  const auto nbytes = format_.symmetric ? 0 : source_.rows * format_.zero_point_bytes(source_.columns);
  const Part before = scales();
  return {aligned(before.offset + before.nbytes), static_cast<uint64_t>(nbytes)};
}

uint64_t QuantizedMatrix::nbytes() const {
  const Part last = format_.symmetric ? scales() : zero_points();
  return last.offset + last.nbytes;
}

std::string QuantizedMatrix::key() const {
  return fmt::format("quantized {} {} {} {} {}", format_.bits, format_.block_size, format_.symmetric,
                     c10::toString(scale_dtype_), source_.key());
}

void QuantizedMatrix::for_each_rows(
    const std::function<void(int64_t, const at::Tensor&, const QuantizedRows&)>& visit) const {
  const MatrixReader reader(source_);
  const int64_t columns = source_.columns;
  const int64_t step = std::clamp<int64_t>(kPieceElements / std::max<int64_t>(columns, 1), 1, source_.rows);
  std::vector<uint8_t> values(static_cast<size_t>(step * format_.value_bytes(columns)));
  std::vector<float> scales(static_cast<size_t>(step * format_.blocks(columns)));
  std::vector<uint8_t> zero_points(format_.symmetric ? 0
                                                     : static_cast<size_t>(step * format_.zero_point_bytes(columns)));
  for (int64_t row = 0; row < source_.rows; row += step) {
    const int64_t count = std::min(step, source_.rows - row);
    const at::Tensor piece = reader.read(row, count);
    const auto part = [&](auto& whole) {
      return std::span(whole).first(whole.size() / static_cast<size_t>(step) * static_cast<size_t>(count));
    };
    const QuantizedRows rounded{part(values), part(scales), part(zero_points)};
    try {
      quantize_rows({piece.const_data_ptr<float>(), static_cast<size_t>(piece.numel())}, columns, format_, scale_dtype_,
                    rounded);
    } catch (const Error& error) {
      throw error.with_context("weight '" + name_ + "'");
    }
    visit(row, piece, rounded);
  }
}

void QuantizedMatrix::write(const ByteSink& sink) const {
  std::vector<float> all_scales;
  std::vector<c10::Half> half_scales;
  std::vector<uint8_t> all_zero_points;
  uint64_t position = 0;
  for_each_rows([&](int64_t, const at::Tensor&, const QuantizedRows& rounded) {
    sink.write(std::as_bytes(rounded.values));
    position += rounded.values.size();
    if (scale_dtype_ == c10::kHalf) {
      half_scales.insert(half_scales.end(), rounded.scales.begin(), rounded.scales.end());
    } else {
      all_scales.insert(all_scales.end(), rounded.scales.begin(), rounded.scales.end());
    }
    all_zero_points.insert(all_zero_points.end(), rounded.zero_points.begin(), rounded.zero_points.end());
  });
  write_part(sink, position, scales(), scale_dtype_ == c10::kHalf ? bytes_of(half_scales) : bytes_of(all_scales));
  write_part(sink, position, zero_points(), bytes_of(all_zero_points));
}

}  // namespace exporters::onnx
