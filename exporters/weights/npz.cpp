#include "exporters/weights/npz.h"

#include "exporters/support/error.h"
#include "exporters/support/mapped_file.h"
#include "exporters/support/quote.h"
#include "exporters/weights/npy_header.h"
#include "exporters/weights/zip_archive.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace exporters {
namespace {

void swap_bytes(std::span<std::byte> data, size_t element) {
  for (size_t i = 0; i + element <= data.size(); i += element) {
    std::reverse(data.begin() + static_cast<ptrdiff_t>(i), data.begin() + static_cast<ptrdiff_t>(i + element));
  }
}

// The tensor of a header and the whole file's bytes, whose size the header's parser has proved.
at::Tensor make_tensor(const NpyHeader& header, std::span<const std::byte> file) {
  std::vector<int64_t> stored = header.shape;
  if (header.fortran_order) {
    std::reverse(stored.begin(), stored.end());
  }
  at::Tensor tensor = at::empty(stored, at::TensorOptions().dtype(header.dtype));
  std::span<std::byte> data(static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes());
  std::copy_n(file.begin() + static_cast<ptrdiff_t>(header.data_start), data.size(), data.begin());
  if (header.swapped) {
    swap_bytes(data, tensor.is_complex() ? tensor.element_size() / 2 : tensor.element_size());
  }
  if (header.dtype == c10::ScalarType::Bool) {
    // Any other byte would be undefined behaviour in every loop that reads it.
    std::transform(data.begin(), data.end(), data.begin(), [](std::byte b) { return std::byte(b != std::byte(0)); });
  }
  if (header.fortran_order) {
    std::vector<int64_t> axes(stored.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      axes[i] = static_cast<int64_t>(axes.size() - 1 - i);
    }
    tensor = tensor.permute(axes).contiguous();
  }
  return tensor;
}

// The header is proved before the array is unpacked.
at::Tensor load_entry(const ZipArchive& archive, const ZipEntry& entry) {
  std::string name = quote(entry.name) + " in " + quote(archive.path().native(), 400);
  NpyHeader header = parse_npy_header(archive.read_start(entry, kMaxNpyHeader + 12), entry.size, name);
  std::vector<std::byte> bytes(entry.size);
  archive.read(entry, bytes);
  return make_tensor(header, bytes);
}

}  // namespace

at::Tensor load_npy(const std::filesystem::path& path) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  NpyHeader header = parse_npy_header(file->bytes(), file->size(), quote(path.native(), 400));
  return make_tensor(header, file->bytes());
}

std::vector<std::pair<std::string, at::Tensor>> load_npz(const std::filesystem::path& path) {
  constexpr std::string_view kSuffix = ".npy";
  ZipArchive archive = ZipArchive::open(path);
  std::vector<std::pair<std::string, at::Tensor>> arrays;
  for (const ZipEntry& entry : archive.entries()) {
    std::string name = entry.name;
    if (!name.ends_with(kSuffix)) {
      fail("{} holds {}, which is not an array (.npy)", quote(path.native(), 400), quote(name));
    }
    name.resize(name.size() - kSuffix.size());
    arrays.emplace_back(std::move(name), load_entry(archive, entry));
  }
  return arrays;
}

}  // namespace exporters
