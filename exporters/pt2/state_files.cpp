#include "exporters/pt2/state_files.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/pt2/meta_json.h"
#include "exporters/pt2/schema.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

namespace exporters::pt2 {
namespace {

using InputKind = InputSpec::Kind;

// Begin and end of what a tensor's elements take of its storage, as addresses.
struct Extent {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

Extent extent_from(uintptr_t begin, const at::Tensor& tensor) {
  if (tensor.numel() == 0) {
    return {begin, begin};
  }
  uintptr_t elements = 1;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    elements += static_cast<uintptr_t>((tensor.size(axis) - 1) * tensor.stride(axis));
  }
  return {begin, begin + elements * tensor.element_size()};
}

Extent extent_of(const at::Tensor& tensor) {
  return extent_from(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()), tensor);
}

Extent extent_in_storage(const at::Tensor& tensor) {
  return extent_from(static_cast<uintptr_t>(tensor.storage_offset()) * tensor.element_size(), tensor);
}

struct Item {
  const InputSpec* spec;
  at::Tensor tensor;  // on the CPU, with plain bytes
  const std::optional<WeightSource>* source;
  const DeferredConversion* deferred;  // nullptr for what has its bytes in memory
  Extent extent;                       // of deferred tensors within their storage
  size_t file = 0;
};

[[noreturn]] void refuse(const InputSpec& spec, std::string_view problem) {
  fail("Cannot save {} into a .pt2 archive: it {}", quote(spec.target), problem);
}

at::Tensor with_plain_bytes(const InputSpec& spec, const at::Tensor& tensor) {
  if (tensor.is_meta()) {
    refuse(spec, "is a meta tensor: it has no data");
  }
  if (tensor.layout() != c10::kStrided || tensor.is_quantized() || !dtype_code(tensor.scalar_type())) {
    refuse(spec, fmt::format("is a {}{} tensor, which the format has no place for",
                             tensor.layout() != c10::kStrided ? "sparse " : "", c10::toString(tensor.scalar_type())));
  }
  return tensor.cpu().resolve_conj().resolve_neg();
}

class FolderBuilder {
 public:
  explicit FolderBuilder(std::string_view file_prefix) : prefix_(file_prefix) {}

  void add(const InputSpec& spec, const StateTensor& state) {
    at::Tensor tensor = with_plain_bytes(spec, state.tensor);
    if (!tensor.is_same(state.tensor)) {
      folder_.copies.push_back(tensor);
    }
    const DeferredConversion* deferred = deferred_conversion(tensor);
    const Extent extent = deferred != nullptr ? extent_in_storage(tensor) : extent_of(tensor);
    items_.push_back({&spec, std::move(tensor), &state.source, deferred, extent});
  }

  StateFolder build() && {
    assign_files();
    describe();
    return std::move(folder_);
  }

 private:
  // Files are numbered in the order of their first tensors.
  void assign_files() {
    const std::vector<Extent> shared = shared_extents();
    std::map<std::tuple<c10::ScalarType, uintptr_t, uintptr_t>, size_t> known;
    for (size_t i = 0; i < items_.size(); ++i) {
      Item& item = items_[i];
      if (item.deferred != nullptr) {
        item.file = deferred_file(item);
        continue;
      }
      const std::tuple key(item.tensor.scalar_type(), shared[i].begin, shared[i].end);
      const auto found = known.find(key);
      const bool is_empty = item.extent.begin == item.extent.end;
      item.file = found == known.end() || is_empty ? new_file(shared[i]) : found->second;
      known.emplace(key, item.file);
      StateFile& file = folder_.files[item.file];
      const bool is_whole = item.extent.begin == shared[i].begin && item.extent.end == shared[i].end;
      if (is_whole && *item.source && (*item.source)->nbytes == file.bytes.size() && item.tensor.is_contiguous()) {
        file.source = *item.source;
      }
    }
  }

  // One for all names of a tied weight and all views of it: a conversion is done as a whole.
  size_t deferred_file(const Item& item) {
    const auto [position, is_new] = deferred_files_.try_emplace(item.deferred, folder_.files.size());
    if (is_new) {
      folder_.files[new_file({})].deferred = whole_deferred(item.tensor);
    }
    return position->second;
  }

  size_t new_file(const Extent& extent) {
    folder_.files.push_back({std::string(prefix_) + std::to_string(folder_.files.size()),
                             {reinterpret_cast<const std::byte*>(extent.begin), extent.end - extent.begin},
                             std::nullopt,
                             {}});
    extents_.push_back(extent);
    return folder_.files.size() - 1;
  }

  // For each item in memory the union of all extents of its dtype that overlap with it, directly or through others.
  std::vector<Extent> shared_extents() const {
    std::vector<size_t> order;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].deferred == nullptr) {
        order.push_back(i);
      }
    }
    auto key = [&](size_t i) {
      return std::tuple(items_[i].tensor.scalar_type(), items_[i].extent.begin, items_[i].extent.end);
    };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
    std::vector<Extent> shared(items_.size());
    for (size_t first = 0; first < order.size();) {
      Extent extent = items_[order[first]].extent;
      size_t end = first + 1;
      while (end < order.size() && overlaps(order[first], order[end], extent)) {
        extent.end = std::max(extent.end, items_[order[end]].extent.end);
        ++end;
      }
      for (; first < end; ++first) {
        shared[order[first]] = extent;
      }
    }
    return shared;
  }

  bool overlaps(size_t first, size_t next, const Extent& extent) const {
    const Item& a = items_[first];
    const Item& b = items_[next];
    // An offset inside of an element cannot be told; such tensors get a file each.
    return a.tensor.scalar_type() == b.tensor.scalar_type() && b.extent.begin < extent.end &&
           (b.extent.begin - extent.begin) % a.tensor.element_size() == 0;
  }

  // The order of the members is the order of Python's state_dict.
  void describe() {
    MetaJson metas(no_hints_);
    std::string members;
    for (const Item& item : items_) {
      const uintptr_t offset = item.extent.begin - extents_[item.file].begin;
      TensorMeta meta;
      meta.dtype = item.tensor.scalar_type();
      meta.sizes.assign(item.tensor.sizes().begin(), item.tensor.sizes().end());
      meta.strides.assign(item.tensor.strides().begin(), item.tensor.strides().end());
      meta.storage_offset = static_cast<int64_t>(offset / item.tensor.element_size());
      meta.requires_grad = item.tensor.requires_grad();
      const nlohmann::json entry = {{"path_name", folder_.files[item.file].name},
                                    {"is_param", item.spec->kind == InputKind::kParameter},
                                    {"use_pickle", false},
                                    {"tensor_meta", metas.tensor(meta)}};
      members += (members.empty() ? "" : ", ") + json_text(item.spec->target) + ": " + json_text(entry);
    }
    folder_.config = "{\"config\": {" + members + "}}";
  }

  std::string_view prefix_;
  std::map<const DeferredConversion*, size_t> deferred_files_;
  std::vector<Item> items_;
  std::vector<Extent> extents_;  // of the files
  StateFolder folder_;
  const std::map<std::string, int64_t> no_hints_;
};

template <typename Wanted>
StateFolder files_of(const ExportedProgram& program, std::string_view prefix, Wanted wanted) {
  FolderBuilder builder(prefix);
  for (const InputSpec& spec : program.signature.inputs) {
    if (wanted(spec)) {
      builder.add(spec, program.state.at(spec.target));
    }
  }
  return std::move(builder).build();
}

}  // namespace

StateFolder weight_files(const ExportedProgram& program) {
  return files_of(program, kWeightPrefix, [](const InputSpec& spec) {
    return spec.kind == InputKind::kParameter || (spec.kind == InputKind::kBuffer && spec.persistent);
  });
}

StateFolder constant_files(const ExportedProgram& program) {
  return files_of(program, kConstantPrefix, [](const InputSpec& spec) {
    return spec.kind == InputKind::kTensorConstant || (spec.kind == InputKind::kBuffer && !spec.persistent);
  });
}

}  // namespace exporters::pt2
