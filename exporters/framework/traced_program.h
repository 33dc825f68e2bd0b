#pragma once

#include "exporters/framework/exporter.h"

#include <memory>

namespace exporters {

/// Makes positional arguments keyword arguments, by the names that they have in the graph: exports are called by name.
/// Throws Error when the program's signature and in_spec disagree.
void name_positional_arguments(ExportedProgram& program);

/// A program that was traced elsewhere, such as a .pt2 of Python, as something to export: with what export.json says of
/// it. Its arguments are named as above.
TracedModel traced_model(std::shared_ptr<ExportedProgram> program);

/// The names and sizes of a program's inputs and outputs, its conditions on sizes and its operators. Symbols show as
/// the Dims that they are.
ProgramDescription describe_traced_program(const ExportedProgram& program);

}  // namespace exporters
