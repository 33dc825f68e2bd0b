#include "exporters/onnx/emit/external_data.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/support/error.h"
#include "exporters/support/file_copy.h"

#include <algorithm>
#include <map>

namespace exporters::onnx {
namespace {

constexpr uint64_t kBlock = 4096;          // what file systems share, and what mmap maps
constexpr uint64_t kTensorAlignment = 64;  // a cache line

uint64_t checked_size(const OnnxTensor& tensor, uint64_t nbytes) {
  const std::optional<uint64_t> expected = tensor.expected_bytes();
  ensure(expected == nbytes, "initializer '{}' has {} bytes, but its shape and type need {}", tensor.name, nbytes,
         expected ? std::to_string(*expected) : "a number that cannot be computed");
  return nbytes;
}

// What a tensor in memory is known by: its bytes, or the conversion that will make them.
const void* identity(const at::Tensor& bytes) {
  const DeferredConversion* conversion = deferred_conversion(bytes);
  return conversion != nullptr ? static_cast<const void*>(conversion) : bytes.const_data_ptr();
}

class Layout {
 public:
  explicit Layout(const std::string& location) : location_(location) {}

  void place_files(const std::vector<OnnxTensor*>& pending) {
    std::vector<std::string> order;  // files by first use: the same wherever they lie
    std::map<std::string, std::vector<OnnxTensor*>> by_file;
    for (OnnxTensor* tensor : pending) {
      if (const auto* source = std::get_if<WeightSource>(&tensor->data)) {
        checked_size(*tensor, source->nbytes);
        std::vector<OnnxTensor*>& tensors = by_file[source->file];
        if (tensors.empty()) {
          order.push_back(source->file);
        }
        tensors.push_back(tensor);
      }
    }
    for (const std::string& file : order) {
      place_file(by_file[file]);
    }
  }

  void place_memory(const std::vector<OnnxTensor*>& pending) {
    std::map<std::pair<const void*, uint64_t>, uint64_t> placed;  // bytes → offset
    for (OnnxTensor* tensor : pending) {
      const auto* source = std::get_if<at::Tensor>(&tensor->data);
      if (source == nullptr) {
        continue;
      }
      const at::Tensor bytes = source->contiguous().cpu();
      const uint64_t nbytes = checked_size(*tensor, bytes.nbytes());
      const auto [position, fresh] = placed.try_emplace({identity(bytes), nbytes}, 0);
      if (fresh) {
        position->second = (data_.size + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
        add_piece(bytes, position->second, nbytes);
      }
      tensor->data = StoredBytes{location_, position->second, nbytes};
    }
  }

  ExternalData result() && { return std::move(data_); }

 private:
  static const WeightSource& source_of(const OnnxTensor* tensor) { return std::get<WeightSource>(tensor->data); }

  void place_file(std::vector<OnnxTensor*>& tensors) {
    std::stable_sort(tensors.begin(), tensors.end(), [](const OnnxTensor* a, const OnnxTensor* b) {
      return source_of(a).offset < source_of(b).offset;
    });
    size_t first = 0;
    while (first < tensors.size()) {
      const uint64_t begin = source_of(tensors[first]).offset;
      uint64_t end = begin;
      size_t last = first;
      // A gap below a block is carried along: to leave it out would cost as much padding.
      while (last < tensors.size() && source_of(tensors[last]).offset <= end + kBlock) {
        end = std::max(end, source_of(tensors[last]).offset + source_of(tensors[last]).nbytes);
        ++last;
      }
      place_run(
          {tensors.begin() + static_cast<std::ptrdiff_t>(first), tensors.begin() + static_cast<std::ptrdiff_t>(last)},
          begin, end - begin);
      first = last;
    }
  }

  void place_run(const std::vector<OnnxTensor*>& tensors, uint64_t begin, uint64_t nbytes) {
    const uint64_t offset = data_.size + (begin + kBlock - data_.size % kBlock) % kBlock;
    WeightSource run = source_of(tensors.front());
    run.nbytes = nbytes;
    add_piece(run, offset, nbytes);
    for (OnnxTensor* tensor : tensors) {
      const WeightSource source = source_of(tensor);
      tensor->data = StoredBytes{location_, offset + (source.offset - begin), source.nbytes};
    }
  }

  template <typename Source>
  void add_piece(const Source& source, uint64_t offset, uint64_t nbytes) {
    ExternalData::Piece& piece = data_.pieces.emplace_back();
    piece.source = source;
    piece.offset = offset;
    piece.nbytes = nbytes;
    data_.size = offset + nbytes;
  }

  const std::string& location_;
  ExternalData data_;
};

void write_tensor(const at::Tensor& tensor, AtomicFile& file) {
  if (deferred_conversion(tensor) != nullptr) {
    write_deferred(tensor, {.write = [&](std::span<const std::byte> bytes) { file.write(bytes); },
                            .write_zeros = [&](uint64_t nbytes) { file.reserve(nbytes); }});
  } else {
    file.write(std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()));
  }
}

}  // namespace

namespace {

std::vector<OnnxTensor*> pending_tensors(OnnxGraph& graph) {
  std::vector<OnnxTensor*> pending;
  for_each_tensor(graph, [&](OnnxTensor& tensor) {
    if (std::holds_alternative<WeightSource>(tensor.data) || std::holds_alternative<at::Tensor>(tensor.data)) {
      pending.push_back(&tensor);
    }
  });
  return pending;
}

// Null for what is written in another form than it lies in memory.
const at::Tensor* in_memory(const OnnxTensor& tensor) {
  const auto* bytes = std::get_if<at::Tensor>(&tensor.data);
  return bytes != nullptr && bytes->is_contiguous() && bytes->is_cpu() ? bytes : nullptr;
}

ExternalData lay_out_tensors(const std::vector<OnnxTensor*>& pending, const std::string& location) {
  Layout layout(location);
  layout.place_files(pending);
  layout.place_memory(pending);
  return std::move(layout).result();
}

}  // namespace

void SharedData::refer(OnnxGraph& graph) const {
  for (OnnxTensor* tensor : pending_tensors(graph)) {
    if (const auto* source = std::get_if<WeightSource>(&tensor->data)) {
      const auto found = from_files_.find({source->file, source->offset, source->nbytes});
      if (found != from_files_.end()) {
        tensor->data = found->second;
      }
    } else if (const auto* bytes = in_memory(*tensor)) {
      const auto found = from_memory_.find({identity(*bytes), bytes->nbytes()});
      if (found != from_memory_.end()) {
        tensor->data = found->second;
      }
    }
  }
}

ExternalData SharedData::lay_out(OnnxGraph& graph, const std::string& location) {
  std::vector<std::pair<OnnxTensor*, std::variant<FileBytes, MemoryBytes>>> placed;
  // Asked for once: a walk that may write replaces nested graphs by copies of the model's own.
  const std::vector<OnnxTensor*> pending = pending_tensors(graph);
  for (OnnxTensor* tensor : pending) {
    if (const auto* source = std::get_if<WeightSource>(&tensor->data)) {
      placed.emplace_back(tensor, FileBytes(source->file, source->offset, source->nbytes));
    } else if (const auto* bytes = in_memory(*tensor)) {
      placed.emplace_back(tensor, MemoryBytes(identity(*bytes), bytes->nbytes()));
    }
  }
  ExternalData data = lay_out_tensors(pending, location);
  for (const auto& [tensor, known_by] : placed) {
    const auto& stored = std::get<StoredBytes>(tensor->data);
    if (const auto* file = std::get_if<FileBytes>(&known_by)) {
      from_files_.emplace(*file, stored);
    } else {
      from_memory_.emplace(std::get<MemoryBytes>(known_by), stored);
    }
  }
  return data;
}

ExternalData lay_out_external_data(OnnxGraph& graph, const std::string& location) {
  return lay_out_tensors(pending_tensors(graph), location);
}

void write_external_data(const ExternalData& data, AtomicFile& file) {
  for (const ExternalData::Piece& piece : data.pieces) {
    file.reserve(piece.offset - file.size());
    if (const auto* source = std::get_if<WeightSource>(&piece.source)) {
      append_range(file, source->file, source->offset, piece.nbytes);
    } else {
      write_tensor(std::get<at::Tensor>(piece.source), file);
    }
  }
}

}  // namespace exporters::onnx
