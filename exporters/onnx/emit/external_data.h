#pragma once

#include "exporters/onnx/emit/model.h"
#include "exporters/support/atomic_file.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace exporters::onnx {

/// Bytes of a file, a tensor in memory or yet to be converted from a file, or what is made while it is written.
using PieceSource = std::variant<WeightSource, at::Tensor, ComputedBytes>;

/// What an external data file is made of: pieces, each at its offset; what lies between them is a hole.
struct ExternalData {
  struct Piece {
    PieceSource source;
    uint64_t offset = 0;
    uint64_t nbytes = 0;
  };
  std::vector<Piece> pieces;  ///< by ascending offset, not overlapping
  uint64_t size = 0;          ///< of the file
};

/// Every pending tensor of a graph, nested ones too. The pointers hold until the graph changes.
std::vector<OnnxTensor*> pending_tensors(OnnxGraph& graph);

/// Gives every pending initializer of `graph` (subgraphs included) a place in the file `location` and makes it
/// StoredBytes. Equal sources (tied weights) share one place. A piece from a file keeps its offset modulo 4096, so that
/// file systems can share blocks; neighbours in a file become one piece; tensors in memory follow, then computed data,
/// each as a whole. The result does not depend on where the source files lie.
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
  struct Place {
    std::string location;
    uint64_t offset = 0;
  };
  std::map<std::string, Place> places_;  ///< by BytesKey::whole
};

/// What a contiguous tensor in memory is known by: where its bytes are, or the conversion that will make them.
uint64_t memory_identity(const at::Tensor& bytes);

/// What the bytes of a pending tensor are known by: a key that bytes from one place share, and the range of them.
struct BytesKey {
  std::string whole;
  uint64_t offset = 0;
  uint64_t nbytes = 0;
};
/// Nothing for a tensor that is written in another form than it lies in memory.
std::optional<BytesKey> bytes_key(const OnnxTensor& tensor);

/// Where the bytes of a tensor come from that is pending.
PieceSource piece_source(const OnnxTensor& tensor);

/// The size of the tensor's bytes. Throws Error unless it is dims × element size.
uint64_t checked_nbytes(const OnnxTensor& tensor, const PieceSource& source);

/// Appends the bytes, as write_external_data does.
void append_piece(const PieceSource& source, AtomicFile& file);

/// Fills the empty `file`, and leaves the commit to the caller: pieces from files are copied without passing through
/// user memory where the system can, holes of sparse sources stay holes. Throws Error when a source file is too short,
/// and on I/O failures.
void write_external_data(const ExternalData& data, AtomicFile& file);

}  // namespace exporters::onnx
