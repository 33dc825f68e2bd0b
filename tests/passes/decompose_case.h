#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/passes/decompose.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace exporters::decomposition {

using Tensors = std::vector<at::Tensor>;

/// A forward and its inputs. An input is a kind and its sizes: "b s 8". Kinds: float (none), "p" in (0.1, 0.9), "l"
/// integers in [0, 3), "k" in [-4, 5), "m" booleans: "l: b s". Letters stand for sizes that are symbolic in the
/// program.
struct Case {
  std::string name;
  std::vector<std::string> inputs;
  std::function<Tensors(const Tensors&)> forward;
  double tolerance = 1e-5;
};

inline void PrintTo(const Case& example, std::ostream* out) { *out << example.name; }

/// Inputs of the case with these sizes for its letters, always the same for the same sizes.
Tensors make_inputs(const Case& example, const std::map<char, int64_t>& sizes);

/// Traced with b = 2, s = 3, t = 4, every axis with a letter dynamic.
ExportedProgram traced(const Case& example);

/// Nodes that are neither tagged core nor operations on sizes, by target.
std::vector<std::string> outside_core(const Graph& graph);

/// Decomposed, the program has core ops only, is verified, asks nothing about sizes that it did not ask before, and
/// gives in the interpreter what the undecomposed one and the forward give, at sizes with ones and at others.
void check(const Case& example, const DecompositionTable& table = core_aten_decompositions());

}  // namespace exporters::decomposition
