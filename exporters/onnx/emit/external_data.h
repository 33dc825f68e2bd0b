#pragma once

#include "exporters/onnx/emit/model.h"
#include "exporters/support/atomic_file.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace exporters::onnx {

/// What an external data file is made of: pieces of other files and tensors (in memory, or yet to be converted from a
/// file), each at its offset; what lies between them is a hole.
struct ExternalData {
  struct Piece {
    std::variant<WeightSource, at::Tensor> source;
    uint64_t offset = 0;
    uint64_t nbytes = 0;
  };
  std::vector<Piece> pieces;  ///< by ascending offset, not overlapping
  uint64_t size = 0;          ///< of the file
};

/// Gives every initializer of `graph` (subgraphs included) whose bytes are a WeightSource or an at::Tensor a place in
/// the file `location` and makes it StoredBytes. Equal sources (tied weights) share one place. A piece from a file
/// keeps its offset modulo 4096, so that file systems can share blocks; neighbours in a file become one piece;
/// tensors in memory follow. The result does not depend on where the source files lie.
/// Throws Error when a source's size is not dims × element size.
ExternalData lay_out_external_data(OnnxGraph& graph, const std::string& location);

/// Where the bytes of earlier models in a folder lie, so that later ones refer to them instead of writing them again.
class SharedData {
 public:
  /// Makes what is there already StoredBytes, and leaves the rest.
  void refer(OnnxGraph& graph) const;
  /// lay_out_external_data; what it placed is there for later models. Tensors in memory have to live on.
  ExternalData lay_out(OnnxGraph& graph, const std::string& location);

 private:
  using FileBytes = std::tuple<std::string, uint64_t, uint64_t>;  // file, offset, length
  using MemoryBytes = std::pair<const void*, uint64_t>;           // see lay_out_external_data
  std::map<FileBytes, StoredBytes> from_files_;
  std::map<MemoryBytes, StoredBytes> from_memory_;
};

/// Fills the empty `file`, and leaves the commit to the caller: pieces from files are copied without passing through
/// user memory where the system can, holes of sparse sources stay holes. Throws Error when a source file is too short,
/// and on I/O failures.
void write_external_data(const ExternalData& data, AtomicFile& file);

}  // namespace exporters::onnx
