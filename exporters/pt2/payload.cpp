#include "exporters/pt2/payload.h"

#include "exporters/pt2/graph_reader.h"
#include "exporters/pt2/schema.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/log.h"
#include "exporters/support/quote.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace exporters::pt2 {
namespace {

constexpr uint64_t kMaxConfigBytes = 64u << 20;
// Stored data costs no memory. What is compressed may take as much as the archive itself and a little more for data
// that repeats; weights do not compress so well.
constexpr uint64_t kMaxUnpackedRatio = 8;
constexpr uint64_t kFreeUnpacked = 64u << 20;

/// Where a tensor lies in its storage, in elements.
struct View {
  c10::ScalarType dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;

  bool empty() const { return std::find(sizes.begin(), sizes.end(), 0) != sizes.end(); }
  int64_t element() const { return static_cast<int64_t>(c10::elementSize(dtype)); }
};

int64_t read_size(const Expr& expr, std::string_view what) {
  const auto value = expr.as_int();
  if (!value || *value < 0) {
    fail("has {} as a {}, where a number of 0 or more is expected", expr.str(), what);
  }
  return *value;
}

View read_view(const Json& json) {
  Symbols none;
  const TensorMeta meta = read_tensor_meta(json, none);
  ensure(meta.layout == c10::kStrided, "has a sparse layout, which is not read");
  ensure(meta.strides.size() == meta.sizes.size(), "has {} sizes and {} strides", meta.sizes.size(),
         meta.strides.size());
  View view{meta.dtype, {}, {}, read_size(meta.storage_offset, "storage offset")};
  for (size_t axis = 0; axis < meta.sizes.size(); ++axis) {
    view.sizes.push_back(read_size(meta.sizes[axis], "size"));
    view.strides.push_back(read_size(meta.strides[axis], "stride"));
  }
  return view;
}

// The bytes from the storage's start to behind the last element.
uint64_t needed_bytes(const View& view) {
  if (view.empty()) {
    return 0;
  }
  int64_t end = view.offset;
  int64_t count = 1;
  bool overflows = __builtin_add_overflow(end, 1, &end);
  for (size_t axis = 0; axis < view.sizes.size(); ++axis) {
    int64_t reach = 0;
    overflows = overflows || __builtin_mul_overflow(view.sizes[axis] - 1, view.strides[axis], &reach) ||
                __builtin_add_overflow(end, reach, &end) || __builtin_mul_overflow(count, view.sizes[axis], &count);
  }
  overflows = overflows || __builtin_mul_overflow(count, view.element(), &count) ||
              __builtin_mul_overflow(end, view.element(), &end);
  ensure(!overflows, "has the shape {}, which is larger than any memory", shape_text(view.sizes));
  return static_cast<uint64_t>(end);
}

bool is_contiguous(const View& view) {
  int64_t expected = 1;
  for (size_t axis = view.sizes.size(); axis-- > 0;) {
    if (view.sizes[axis] != 1 && view.strides[axis] != expected) {
      return false;
    }
    expected *= view.sizes[axis];
  }
  return true;
}

class PayloadReader {
 public:
  PayloadReader(const Archive& archive, const std::set<std::string>& needed) : archive_(archive), needed_(needed) {}

  void read_folder(std::string_view folder, std::string_view config_suffix) {
    const std::string config = std::string(folder) + archive_.model() + std::string(config_suffix);
    refuse_pickled_folder(std::string(folder), config);
    const Json json = parse_json(archive_.text(config, kMaxConfigBytes), config);
    for (const auto& [name, entry] : as_object(member(json, "config"))) {
      try {
        read_entry(name, entry, folder);
      } catch (const Error& error) {
        throw error.with_context(fmt::format("{} of {}", quote(name), config));
      }
    }
  }

  std::map<std::string, StateTensor> take() { return std::move(state_); }

 private:
  // PyTorch up to 2.8 wrote all of a folder's tensors as one pickle.
  void refuse_pickled_folder(const std::string& folder, const std::string& config) const {
    if (archive_.find(config) == nullptr && archive_.find(folder + archive_.model() + ".pt") != nullptr) {
      throw Error(fmt::format("The archive holds {} as a Python pickle, as PyTorch before 2.9 wrote it", folder), {},
                  "Load it with torch.export.load of PyTorch 2.9 or later, and save it again with torch.export.save.");
    }
  }

  void read_entry(const std::string& name, const Json& json, std::string_view folder) {
    if (as_bool(member(json, "use_pickle"))) {
      if (needed_.contains(name)) {
        throw Error("Only a pickle holds this tensor (or object), and pickles are never read", {},
                    "Tensor subclasses, such as quantized weights, have to be made plain tensors before the export.");
      }
      return;
    }
    const std::string& path = as_text(member(json, "path_name"));
    ensure(!path.empty() && path.find('/') == std::string::npos && path != "..", "{} is no name of an entry",
           quote(path));
    const View view = read_view(member(json, "tensor_meta"));
    const uint64_t nbytes = needed_bytes(view);
    const std::string entry_name = std::string(folder) + path;
    const ZipEntry& entry = archive_.at(entry_name);
    if (entry.size < nbytes) {
      throw Error(fmt::format("{} has {}, the tensor {} of {} takes {}", quote(entry_name), bytes_text(entry.size),
                              shape_text(view.sizes), c10::toString(view.dtype), bytes_text(nbytes)),
                  {}, entry.size == 0 ? "The program was exported from fake tensors, without weights." : "");
    }
    ensure(state_.emplace(name, StateTensor{tensor(entry, view), source(name, entry, view)}).second,
           "There are two tensors of this name");
  }

  at::Tensor tensor(const ZipEntry& entry, const View& view) {
    const at::Tensor& storage = storage_of(entry, view);
    ensure(reinterpret_cast<uintptr_t>(storage.const_data_ptr()) % view.element() == 0,
           "{} does not lie at a multiple of its element's {} bytes", c10::toString(view.dtype), view.element());
    at::Tensor result = at::empty({0}, at::TensorOptions().dtype(view.dtype));
    result.set_(storage.storage(), view.offset, view.sizes, view.strides);
    return result;
  }

  // All tensors of one entry share its storage, as they did in the program.
  const at::Tensor& storage_of(const ZipEntry& entry, const View& view) {
    const auto known = storages_.find(&entry);
    return known != storages_.end() ? known->second : storages_.emplace(&entry, open(entry, view)).first->second;
  }

  at::Tensor open(const ZipEntry& entry, const View& view) {
    const auto size = static_cast<int64_t>(entry.size);
    if (entry.method == ZipEntry::Method::kStored && is_aligned(entry, view)) {
      archive_.zip().verify(entry);
      const std::span<const std::byte> bytes = archive_.zip().stored_bytes(entry);
      // from_blob takes a mutable pointer; the mapping is copy-on-write.
      return at::from_blob(
          const_cast<std::byte*>(bytes.data()), {size}, [file = archive_.zip().mapping()](void*) {}, at::kByte);
    }
    count_unpacked(entry);
    at::Tensor copy = at::empty({size}, at::kByte);
    archive_.zip().read(entry, std::as_writable_bytes(std::span(copy.mutable_data_ptr<uint8_t>(), entry.size)));
    return copy;
  }

  // Vectorised loops may fault on other addresses. PyTorch aligns entries to 64 bytes, other zip programs do not.
  bool is_aligned(const ZipEntry& entry, const View& view) {
    if (entry.offset % static_cast<uint64_t>(view.element()) == 0) {
      return true;
    }
    if (!std::exchange(said_unaligned_, true)) {
      log_warning(
          "{} holds tensors at odd addresses, which are copied into memory; saving it again with torch.export aligns "
          "them",
          quote(archive_.zip().path().native(), 400));
    }
    return false;
  }

  void count_unpacked(const ZipEntry& entry) {
    const uint64_t limit = kFreeUnpacked + kMaxUnpackedRatio * archive_.zip().mapping()->size();
    if (entry.size > limit || unpacked_ > limit - entry.size) {
      throw Error(fmt::format("Its compressed entries unpack to more than {}", bytes_text(limit)), {},
                  "Pack the archive without compression.");
    }
    unpacked_ += entry.size;
  }

  std::optional<WeightSource> source(const std::string& name, const ZipEntry& entry, const View& view) const {
    if (entry.method != ZipEntry::Method::kStored || view.empty() || !is_contiguous(view)) {
      return std::nullopt;
    }
    uint64_t count = 1;
    for (const int64_t size : view.sizes) {
      count *= static_cast<uint64_t>(size);
    }
    const auto element = static_cast<uint64_t>(view.element());
    return WeightSource{.file = archive_.zip().mapping()->identity(),
                        .key = name,
                        .offset = entry.offset + static_cast<uint64_t>(view.offset) * element,
                        .nbytes = count * element};
  }

  const Archive& archive_;
  const std::set<std::string>& needed_;
  std::map<std::string, StateTensor> state_;
  std::unordered_map<const ZipEntry*, at::Tensor> storages_;
  uint64_t unpacked_ = 0;
  bool said_unaligned_ = false;
};

}  // namespace

std::map<std::string, StateTensor> read_payload(const Archive& archive, const std::set<std::string>& needed) {
  PayloadReader reader(archive, needed);
  reader.read_folder(kWeightsFolder, kWeightsConfigSuffix);
  reader.read_folder(kConstantsFolder, kConstantsConfigSuffix);
  return reader.take();
}

}  // namespace exporters::pt2
