#pragma once

#include "exporters/graph/exported_program.h"

#include <vector>

namespace exporters {

/// Calls that compute otherwise in training than in evaluation: live dropout, normalization by the batch's statistics
/// where there are running ones, randomized activations. Empty for a program in evaluation mode.
std::vector<const Node*> training_ops(const ExportedProgram& program);

/// Throws Error that names such calls with their modules, and the way out.
void refuse_training_mode(const ExportedProgram& program);

/// Turns each such call into what it is in evaluation, and removes the counting of batches. Gives the number of calls
/// that changed. Throws Error, with the program as it was, for a call that has no form in evaluation.
size_t switch_to_evaluation(ExportedProgram& program);

}  // namespace exporters
