#include "exporters/weights/safetensors.h"

#include "exporters/support/error.h"
#include "exporters/support/log.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstring>

namespace exporters {

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile());
  file->file_ = MappedFile::open(path);
  file->header_ = parse_safetensors_header(file->file_->bytes(), path.native());
  file->by_name_.reserve(file->header_.entries.size());
  for (const SafetensorsEntry& entry : file->header_.entries) {
    file->by_name_.emplace(entry.name, &entry);
  }
  return file;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

at::Tensor SafetensorsFile::tensor(const SafetensorsEntry& entry) const {
  std::span<const std::byte> bytes = file_->bytes(entry.offset, entry.nbytes);
  at::TensorOptions options = at::TensorOptions().dtype(entry.dtype);
  if (bytes.empty()) {
    return at::empty(entry.shape, options);
  }
  if (reinterpret_cast<uintptr_t>(bytes.data()) % c10::elementSize(entry.dtype) != 0) {
    warn_once(
        fmt::format("{} holds tensors at odd addresses, which are copied into memory; saving it again with "
                    "safetensors aligns them",
                    quote(path().native(), 400)));
    at::Tensor copy = at::empty(entry.shape, options);
    std::memcpy(copy.mutable_data_ptr(), bytes.data(), bytes.size());
    return copy;
  }
  // from_blob takes a mutable pointer; the mapping is copy-on-write.
  void* data = const_cast<std::byte*>(bytes.data());
  return at::from_blob(
      data, entry.shape, [file = file_](void*) {}, options);
}

at::Tensor SafetensorsFile::tensor(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  if (entry == nullptr) {
    std::vector<std::string> names;
    for (const SafetensorsEntry& known : entries()) {
      names.push_back(known.name);
    }
    throw Error(fmt::format("{} has no tensor {}", quote(path().native(), 400), quote(name)), {},
                did_you_mean(name, names));
  }
  return tensor(*entry);
}

WeightSource SafetensorsFile::source(const SafetensorsEntry& entry) const {
  return {.file = file_->identity(), .key = entry.name, .offset = entry.offset, .nbytes = entry.nbytes};
}

}  // namespace exporters
