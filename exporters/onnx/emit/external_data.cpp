#include "exporters/onnx/emit/external_data.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/onnx/emit/computed_data.h"
#include "exporters/support/error.h"
#include "exporters/support/file_copy.h"

#include <algorithm>
#include <map>

namespace exporters::onnx {

uint64_t memory_identity(const at::Tensor& bytes) {
  const DeferredConversion* conversion = deferred_conversion(bytes);
  return reinterpret_cast<uintptr_t>(conversion != nullptr ? static_cast<const void*>(conversion)
                                                           : bytes.const_data_ptr());
}

namespace {

constexpr uint64_t kBlock = 4096;          // what file systems share, and what mmap maps
constexpr uint64_t kTensorAlignment = 64;  // a cache line

uint64_t checked_size(const OnnxTensor& tensor, uint64_t nbytes) {
  const std::optional<uint64_t> expected = tensor.expected_bytes();
  ensure(expected == nbytes, "initializer '{}' has {} bytes, but its shape and type need {}", tensor.name, nbytes,
         expected ? std::to_string(*expected) : "a number that cannot be computed");
  return nbytes;
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
    std::map<std::pair<uint64_t, uint64_t>, uint64_t> placed;  // identity, length → offset
    for (OnnxTensor* tensor : pending) {
      const auto* source = std::get_if<at::Tensor>(&tensor->data);
      if (source == nullptr) {
        continue;
      }
      const at::Tensor bytes = source->contiguous().cpu();
      const uint64_t nbytes = checked_size(*tensor, bytes.nbytes());
      const auto [position, fresh] = placed.try_emplace({memory_identity(bytes), nbytes}, 0);
      if (fresh) {
        position->second = aligned_end();
        add_piece(bytes, position->second, nbytes);
      }
      tensor->data = StoredBytes{location_, position->second, nbytes};
    }
  }

  void place_computed(const std::vector<OnnxTensor*>& pending) {
    std::map<std::string, uint64_t> placed;  // key → offset
    for (OnnxTensor* tensor : pending) {
      const auto* part = std::get_if<ComputedBytes>(&tensor->data);
      if (part == nullptr) {
        continue;
      }
      checked_size(*tensor, part->nbytes);
      const auto [position, fresh] = placed.try_emplace(part->data->key(), 0);
      if (fresh) {
        position->second = aligned_end();
        const uint64_t nbytes = part->data->nbytes();
        add_piece(ComputedBytes{part->data, 0, nbytes}, position->second, nbytes);
      }
      tensor->data = StoredBytes{location_, position->second + part->offset, part->nbytes};
    }
  }

  ExternalData result() && { return std::move(data_); }

 private:
  uint64_t aligned_end() const { return (data_.size + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment; }

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
    data_.pieces.push_back({PieceSource(std::in_place_type<Source>, source), offset, nbytes});
    data_.size = offset + nbytes;
  }

  const std::string& location_;
  ExternalData data_;
};

ByteSink sink_of(AtomicFile& file) {
  return {.write = [&file](std::span<const std::byte> bytes) { file.write(bytes); },
          .write_zeros = [&file](uint64_t nbytes) { file.reserve(nbytes); }};
}

void write_tensor(const at::Tensor& tensor, AtomicFile& file) {
  if (deferred_conversion(tensor) != nullptr) {
    write_deferred(tensor, sink_of(file));
  } else {
    file.write(std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()));
  }
}

// Of the bytes that go through, those of the range.
void append_computed(const ComputedBytes& range, AtomicFile& file) {
  const ByteSink sink = sink_of(file);
  uint64_t position = 0;
  // Begin and end, within the next `count` bytes, of what belongs to the range.
  const auto inside = [&](uint64_t count) {
    const uint64_t begin = std::clamp(range.offset, position, position + count) - position;
    const uint64_t end = std::clamp(range.offset + range.nbytes, position, position + count) - position;
    position += count;
    return std::pair(begin, end);
  };
  range.data->write({.write =
                         [&](std::span<const std::byte> bytes) {
                           const auto [begin, end] = inside(bytes.size());
                           sink.write(bytes.subspan(begin, end - begin));
                         },
                     .write_zeros =
                         [&](uint64_t nbytes) {
                           const auto [begin, end] = inside(nbytes);
                           sink.write_zeros(end - begin);
                         }});
  ensure(position == range.data->nbytes(), "computed data have {} bytes, not the {} that they promise", position,
         range.data->nbytes());
}

ExternalData lay_out_tensors(const std::vector<OnnxTensor*>& pending, const std::string& location) {
  Layout layout(location);
  layout.place_files(pending);
  layout.place_memory(pending);
  layout.place_computed(pending);
  return std::move(layout).result();
}

}  // namespace

std::optional<BytesKey> bytes_key(const OnnxTensor& tensor) {
  if (const auto* source = std::get_if<WeightSource>(&tensor.data)) {
    return BytesKey{fmt::format("file {} {} {}", source->offset, source->nbytes, source->file), 0, source->nbytes};
  }
  if (const auto* part = std::get_if<ComputedBytes>(&tensor.data)) {
    return BytesKey{part->data->key(), part->offset, part->nbytes};
  }
  const auto* bytes = std::get_if<at::Tensor>(&tensor.data);
  if (bytes == nullptr || !bytes->is_contiguous() || !bytes->is_cpu()) {
    return std::nullopt;
  }
  return BytesKey{fmt::format("memory {} {}", memory_identity(*bytes), bytes->nbytes()), 0, bytes->nbytes()};
}

void SharedData::refer(OnnxGraph& graph) const {
  for (OnnxTensor* tensor : pending_tensors(graph)) {
    const std::optional<BytesKey> key = bytes_key(*tensor);
    const auto found = key ? places_.find(key->whole) : places_.end();
    if (found != places_.end()) {
      tensor->data = StoredBytes{found->second.location, found->second.offset + key->offset, key->nbytes};
    }
  }
}

std::vector<OnnxTensor*> pending_tensors(OnnxGraph& graph) {
  std::vector<OnnxTensor*> pending;
  for_each_tensor(graph, [&](OnnxTensor& tensor) {
    if (tensor.is_pending()) {
      pending.push_back(&tensor);
    }
  });
  return pending;
}

PieceSource piece_source(const OnnxTensor& tensor) {
  if (const auto* source = std::get_if<WeightSource>(&tensor.data)) {
    return *source;
  }
  if (const auto* part = std::get_if<ComputedBytes>(&tensor.data)) {
    return *part;
  }
  return std::get<at::Tensor>(tensor.data).contiguous().cpu();
}

uint64_t checked_nbytes(const OnnxTensor& tensor, const PieceSource& source) {
  const auto nbytes = [](const auto& bytes) -> uint64_t {
    if constexpr (std::is_same_v<std::decay_t<decltype(bytes)>, at::Tensor>) {
      return bytes.nbytes();
    } else {
      return bytes.nbytes;
    }
  };
  return checked_size(tensor, std::visit(nbytes, source));
}

void append_piece(const PieceSource& source, AtomicFile& file) {
  if (const auto* range = std::get_if<WeightSource>(&source)) {
    append_range(file, range->file, range->offset, range->nbytes);
  } else if (const auto* part = std::get_if<ComputedBytes>(&source)) {
    append_computed(*part, file);
  } else {
    write_tensor(std::get<at::Tensor>(source), file);
  }
}

ExternalData SharedData::lay_out(OnnxGraph& graph, const std::string& location) {
  std::vector<std::pair<OnnxTensor*, BytesKey>> placed;
  // Asked for once: a walk that may write replaces nested graphs by copies of the model's own.
  const std::vector<OnnxTensor*> pending = pending_tensors(graph);
  for (OnnxTensor* tensor : pending) {
    if (std::optional<BytesKey> key = bytes_key(*tensor)) {
      placed.emplace_back(tensor, std::move(*key));
    }
  }
  ExternalData data = lay_out_tensors(pending, location);
  for (const auto& [tensor, key] : placed) {
    const auto& stored = std::get<StoredBytes>(tensor->data);
    places_.emplace(key.whole, Place{stored.location, stored.offset - key.offset});
  }
  return data;
}

ExternalData lay_out_external_data(OnnxGraph& graph, const std::string& location) {
  return lay_out_tensors(pending_tensors(graph), location);
}

void write_external_data(const ExternalData& data, AtomicFile& file) {
  for (const ExternalData::Piece& piece : data.pieces) {
    file.reserve(piece.offset - file.size());
    append_piece(piece.source, file);
  }
}

}  // namespace exporters::onnx
