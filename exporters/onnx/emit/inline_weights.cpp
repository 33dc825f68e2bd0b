#include "exporters/onnx/emit/inline_weights.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/onnx/emit/external_data.h"
#include "exporters/support/atomic_file.h"
#include "exporters/support/error.h"
#include "exporters/support/mapped_file.h"

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

namespace exporters::onnx {
namespace {

// Equal tensors: dtype, dims, and where the bytes come from.
using Identity = std::tuple<OnnxType, std::vector<int64_t>, std::string, uint64_t>;

void merge_equal_weights(OnnxGraph& graph) {
  std::map<Identity, std::string> first;
  std::unordered_map<std::string, std::string> renamed;
  for (const OnnxTensor& tensor : graph.initializers) {
    if (const auto key = bytes_key(tensor)) {
      const auto [known, fresh] =
          first.emplace(Identity(tensor.dtype, tensor.dims, key->whole, key->offset), tensor.name);
      if (!fresh) {
        renamed.emplace(tensor.name, known->second);
      }
    }
  }
  for (const OnnxValueInfo& output : graph.outputs) {
    renamed.erase(output.name);
  }
  if (!renamed.empty()) {
    std::erase_if(graph.initializers, [&](const OnnxTensor& tensor) { return renamed.contains(tensor.name); });
    rename_values(graph, renamed);
  }
}

// Computed data are of the main graph.
std::string bytes_of(const OnnxTensor& tensor) {
  const PieceSource source = piece_source(tensor);
  std::string bytes(checked_nbytes(tensor, source), '\0');
  if (const auto* range = std::get_if<WeightSource>(&source)) {
    const auto file = MappedFile::open(range->file);
    std::memcpy(bytes.data(), file->bytes(range->offset, range->nbytes).data(), range->nbytes);
  } else {
    const at::Tensor whole = undeferred(std::get<at::Tensor>(source));
    std::memcpy(bytes.data(), whole.const_data_ptr(), whole.nbytes());
  }
  return bytes;
}

// Tensors of attributes and nested graphs: small ones as a rule.
void hold_nested(OnnxGraph& graph) {
  std::set<const OnnxTensor*> of_main;
  for (const OnnxTensor& tensor : graph.initializers) {
    of_main.insert(&tensor);
  }
  for (OnnxTensor* tensor : pending_tensors(graph)) {
    if (!of_main.contains(tensor)) {
      tensor->data = InlineBytes{bytes_of(*tensor)};
    }
  }
}

}  // namespace

InlineModel::InlineModel(OnnxModel model) : model_(std::make_unique<OnnxModel>(std::move(model))) {
  merge_equal_weights(model_->graph);
  hold_nested(model_->graph);
  parts_ = serialize_in_parts(*model_);
}

void InlineModel::write(const std::filesystem::path& path) const {
  AtomicFile file(path);
  for (const MessagePart& part : parts_) {
    file.write(part.text);
    if (part.bytes != nullptr) {
      const PieceSource source = piece_source(*part.bytes);
      checked_nbytes(*part.bytes, source);
      append_piece(source, file);
    }
  }
  file.commit();
}

}  // namespace exporters::onnx
