#pragma once

#include "exporters/graph/exported_program.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace exporters::pt2 {

/// The bytes of one or several tensors that lie in one file of the archive.
struct StateFile {
  std::string name;  ///< "weight_3"
  std::span<const std::byte> bytes;
  std::optional<WeightSource> source;  ///< where the same bytes lie in a file
  at::Tensor deferred;                 ///< defined where the bytes are made while they are written (write_deferred)

  uint64_t size() const { return deferred.defined() ? deferred.nbytes() : bytes.size(); }
};

/// Parameters and buffers, or constants: files, and the JSON text that says which tensor is what part of which file.
struct StateFolder {
  std::vector<StateFile> files;
  std::string config;
  std::vector<at::Tensor> copies;  ///< what had to be copied to have plain bytes; the files refer to it
};

/// Parameters and persistent buffers, in signature order. Tensors of one dtype whose bytes overlap share a file (tied
/// weights, views); bytes of a storage that belong to no tensor are left out. Throws Error for tensors without data,
/// sparse and quantized ones.
StateFolder weight_files(const ExportedProgram& program);
/// The same for non-persistent buffers and lifted constants.
StateFolder constant_files(const ExportedProgram& program);

}  // namespace exporters::pt2
