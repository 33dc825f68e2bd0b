#include "exporters/support/atomic_file.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"
#include "exporters/weights/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

namespace exporters {
namespace {

using NamedTensor = std::pair<std::string, at::Tensor>;

void check(const NamedTensor& named) {
  const auto& [name, tensor] = named;
  std::string_view problem;
  if (name == "__metadata__") {
    problem = "has a name that the format keeps for itself";
  } else if (!tensor.defined()) {
    problem = "is undefined";
  } else if (tensor.is_meta()) {
    problem = "is a meta tensor: it has no data";
  } else if (tensor.layout() != at::kStrided) {
    problem = "is sparse";
  } else if (tensor.is_quantized() || !safetensors_dtype_name(tensor.scalar_type())) {
    throw Error(fmt::format("Cannot save the tensor {} as safetensors: the format has no dtype {}", quote(name),
                            c10::toString(tensor.scalar_type())));
  }
  if (!problem.empty()) {
    throw Error(fmt::format("Cannot save the tensor {} as safetensors: it {}", quote(name), problem));
  }
}

std::vector<const NamedTensor*> in_file_order(const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& named : tensors) {
    check(named);
    order.push_back(&named);
  }
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    int rank_a = safetensors_dtype_rank(a->second.scalar_type());
    int rank_b = safetensors_dtype_rank(b->second.scalar_type());
    return rank_a != rank_b ? rank_a > rank_b : a->first < b->first;
  });
  auto twice = [](const NamedTensor* a, const NamedTensor* b) { return a->first == b->first; };
  std::vector<const NamedTensor*> by_name = order;
  std::sort(by_name.begin(), by_name.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  if (auto it = std::adjacent_find(by_name.begin(), by_name.end(), twice); it != by_name.end()) {
    fail("Cannot save two tensors with the name {} in one safetensors file", quote((*it)->first));
  }
  return order;
}

// The text as the format's own writer makes it, padded so that the data begins at a multiple of 8.
std::string header_text(const std::vector<const NamedTensor*>& order,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  auto add_member = [&](const std::string& name, const nlohmann::ordered_json& value) {
    text += (text.size() > 1 ? "," : "") + nlohmann::json(name).dump() + ":" + value.dump();
  };
  if (!metadata.empty()) {
    add_member("__metadata__", metadata);
  }
  uint64_t begin = 0;
  for (const NamedTensor* named : order) {
    const at::Tensor& tensor = named->second;
    uint64_t end = begin + tensor.nbytes();
    nlohmann::ordered_json entry;
    entry["dtype"] = *safetensors_dtype_name(tensor.scalar_type());
    entry["shape"] = tensor.sizes().vec();
    entry["data_offsets"] = {begin, end};
    add_member(named->first, entry);
    begin = end;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

void write_tensor(AtomicFile& file, const at::Tensor& tensor) {
  // Conjugate and negative views are only marks on a tensor until they are resolved.
  at::Tensor plain = tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
  file.write(std::span(static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()));
}

}  // namespace

void save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::vector<const NamedTensor*> order = in_file_order(tensors);
  std::string header;
  try {
    header = header_text(order, metadata);
  } catch (const nlohmann::json::exception&) {
    fail("Cannot save {}: a tensor name or metadata is not UTF-8", quote(path.native(), 400));
  }
  if (header.size() > kMaxSafetensorsHeader) {
    fail("Cannot save {}: its header would have {}, and readers refuse more than {}", quote(path.native(), 400),
         bytes_text(header.size()), bytes_text(kMaxSafetensorsHeader));
  }
  uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const NamedTensor* named : order) {
    write_tensor(file, named->second);
  }
  file.commit();
}

}  // namespace exporters
