#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/graph/pytree.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

namespace exporters {

/// Runs an ExportedProgram on libtorch, without autograd. Everything is resolved at construction. Nothing is copied on
/// the way in or out, as with torch.export's `module()`: an output that is an input, a view of one, or a tensor of the
/// state shares its memory.
/// Any number of threads may run one Interpreter at the same time. Runs of a program that writes to its state (buffers
/// that count, statistics) go one after the other, so each starts from what a whole run left; several Interpreters over
/// the same tensors don't know of each other. A caller that passes one tensor to two runs which write to it has a race,
/// as with any op.
class Interpreter {
 public:
  /// Verifies the program. Throws Error for ops that are unknown or cannot be run.
  explicit Interpreter(std::shared_ptr<const ExportedProgram> program);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Inputs: one for each user input (constant inputs have none), in signature order; an integer input as a 0-d tensor.
  /// Gives the user outputs. Mutations that the signature lists are written into the buffers and inputs.
  /// Throws Error before anything runs when ranks, dtypes, sizes, ranges or guards do not hold: it names the input, the
  /// axis, the given and the allowed size.
  std::vector<PyTree::Leaf> run(std::span<const at::Tensor> inputs) const;

  /// Call and result as `in_spec` and `out_spec` have them. Keyword arguments in any order; each of the traced ones has
  /// to be there, constant ones with the traced value.
  PyTree operator()(const std::vector<PyTree>& args, const PyTree& kwargs = PyTree::dict({})) const;

  const ExportedProgram& program() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

/// The program as a callable, like torch.export's `ExportedProgram.module()`; shares its graph and its tensors. Throws
/// Error as the constructor does.
Interpreter module(const ExportedProgram& program);

}  // namespace exporters
