#include "exporters/graph/deferred_tensor.h"

#include "exporters/graph/dtype.h"
#include "exporters/support/error.h"
#include "exporters/support/file_descriptor.h"

#include <ATen/ops/empty.h>
#include <c10/core/TensorImpl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace exporters {
namespace {

constexpr uint64_t kPiece = 4u << 20;

void delete_conversion(void* context) { delete static_cast<DeferredConversion*>(context); }

const DeferredConversion& conversion_of(const at::Tensor& tensor) {
  const DeferredConversion* conversion = deferred_conversion(tensor);
  ensure(conversion != nullptr, "the tensor holds its data: its conversion is not deferred");
  const bool whole =
      tensor.storage_offset() == 0 && tensor.is_contiguous() && tensor.nbytes() == tensor.storage().nbytes();
  ensure(whole, "the weight '{}' is converted while it is written, so a part or a transpose of it has no data",
         conversion->parts.front().source.key);
  return *conversion;
}

// Made by hand: ops that set a storage ask for its data.
at::Tensor tensor_of(c10::Storage storage, at::IntArrayRef sizes, c10::ScalarType dtype) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

// Reads the stored values piece by piece.
class Reader {
 public:
  explicit Reader(const WeightSource& source, uint64_t element)
      : source_(source),
        fd_(open_regular_file(source.file)),
        buffer_(at::empty({static_cast<int64_t>(kPiece)}, at::kByte)),
        element_(element) {
    struct stat info = {};
    if (::fstat(fd_.get(), &info) != 0) {
      fail_errno("Cannot read the size of", source.file);
    }
    const auto size = static_cast<uint64_t>(info.st_size);
    ensure(source.offset <= size && source.nbytes <= size - source.offset,
           "{} has {} bytes, too few for '{}' with {} bytes at {}", quote(source.file, 400), size, source.key,
           source.nbytes, source.offset);
  }

  bool done() const { return position_ == source_.nbytes; }

  /// Whole elements up to the next data; where the file system cannot tell, none.
  uint64_t skip_hole() {
    const off_t data = ::lseek(fd_.get(), static_cast<off_t>(source_.offset + position_), SEEK_DATA);
    uint64_t end = position_;
    if (data >= 0) {
      end = std::clamp(static_cast<uint64_t>(data) - source_.offset, position_, source_.nbytes);
    } else if (errno == ENXIO) {
      end = source_.nbytes;
    }
    const uint64_t hole = (end - position_) / element_ * element_;
    position_ += hole;
    return hole;
  }

  std::span<const std::byte> read() {
    auto* bytes = static_cast<std::byte*>(buffer_.mutable_data_ptr());
    const uint64_t wanted = std::min(kPiece, source_.nbytes - position_);
    for (uint64_t done = 0; done < wanted;) {
      const ssize_t got =
          ::pread(fd_.get(), bytes + done, wanted - done, static_cast<off_t>(source_.offset + position_ + done));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        fail_errno("Cannot read", source_.file);
      }
      ensure(got > 0, "{} became shorter while it was read", quote(source_.file, 400));
      done += static_cast<uint64_t>(got);
    }
    position_ += wanted;
    return {bytes, wanted};
  }

  at::Tensor values(std::span<const std::byte> bytes, c10::ScalarType stored) const {
    return buffer_.narrow(0, 0, static_cast<int64_t>(bytes.size())).view(stored);
  }

 private:
  const WeightSource& source_;
  FileDescriptor fd_;
  at::Tensor buffer_;
  uint64_t element_;
  uint64_t position_ = 0;
};

void write_part(const StoredValues& part, c10::ScalarType dtype, const ByteSink& sink) {
  const uint64_t stored_size = c10::elementSize(part.stored);
  const uint64_t size = c10::elementSize(dtype);
  Reader reader(part.source, stored_size);
  while (!reader.done()) {
    if (const uint64_t hole = reader.skip_hole(); hole > 0) {
      sink.write_zeros(hole / stored_size * size);
      continue;
    }
    const at::Tensor piece = reader.values(reader.read(), part.stored).to(dtype);
    sink.write({static_cast<const std::byte*>(piece.const_data_ptr()), piece.nbytes()});
  }
}

std::string message_of(const std::vector<StoredValues>& parts, c10::ScalarType dtype) {
  const StoredValues& first = parts.front();
  return parts.size() > 1 ? fmt::format(
                                "the weights '{}' to '{}' are joined while they are written, so they have no "
                                "data to compute with",
                                first.source.key, parts.back().source.key)
                          : fmt::format(
                                "the weight '{}' is converted from {} to {} while it is written, so it has no "
                                "data to compute with",
                                first.source.key, dtype_name(first.stored), dtype_name(dtype));
}

}  // namespace

at::Tensor defer_conversion(WeightSource source, c10::ScalarType stored, at::IntArrayRef sizes, c10::ScalarType dtype) {
  return defer_join({{std::move(source), stored}}, sizes, dtype);
}

at::Tensor defer_join(std::vector<StoredValues> parts, at::IntArrayRef sizes, c10::ScalarType dtype) {
  ensure(!parts.empty(), "a tensor of no parts has no values to be converted");
  const auto elements = static_cast<uint64_t>(c10::multiply_integers(sizes));
  uint64_t stored = 0;
  for (const StoredValues& part : parts) {
    stored += part.source.nbytes / c10::elementSize(part.stored);
    ensure(part.source.nbytes % c10::elementSize(part.stored) == 0 && stored <= elements,
           "'{}' has {} bytes, not those of {} {} values", part.source.key, part.source.nbytes, elements,
           dtype_name(part.stored));
  }
  ensure(stored == elements, "'{}' has {} bytes, not those of {} {} values", parts.back().source.key,
         parts.back().source.nbytes, elements, dtype_name(parts.back().stored));
  const std::string message = message_of(parts, dtype);
  auto* conversion = new DeferredConversion{std::move(parts)};
  c10::Storage storage(c10::Storage::use_byte_size_t(), elements * c10::elementSize(dtype),
                       c10::DataPtr(nullptr, conversion, &delete_conversion, c10::kCPU));
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(message);
  return tensor_of(std::move(storage), sizes, dtype);
}

at::Tensor whole_deferred(const at::Tensor& view) {
  ensure(deferred_conversion(view) != nullptr, "the tensor holds its data: its conversion is not deferred");
  const c10::Storage& storage = view.storage();
  return tensor_of(storage, {static_cast<int64_t>(storage.nbytes() / view.element_size())}, view.scalar_type());
}

const DeferredConversion* deferred_conversion(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) {
    return nullptr;
  }
  const c10::DataPtr& data = tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  return data.get_deleter() == &delete_conversion ? static_cast<const DeferredConversion*>(data.get_context())
                                                  : nullptr;
}

void write_deferred(const at::Tensor& tensor, const ByteSink& sink) {
  for (const StoredValues& part : conversion_of(tensor).parts) {
    write_part(part, tensor.scalar_type(), sink);
  }
}

at::Tensor undeferred(const at::Tensor& tensor) {
  if (deferred_conversion(tensor) == nullptr) {
    return tensor;
  }
  at::Tensor result = at::empty(tensor.sizes(), tensor.options());
  auto* position = static_cast<std::byte*>(result.mutable_data_ptr());
  write_deferred(tensor, {.write =
                              [&](std::span<const std::byte> bytes) {
                                std::memcpy(position, bytes.data(), bytes.size());
                                position += bytes.size();
                              },
                          .write_zeros =
                              [&](uint64_t nbytes) {
                                std::memset(position, 0, nbytes);
                                position += nbytes;
                              }});
  return result;
}

}  // namespace exporters
