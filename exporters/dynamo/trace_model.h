#pragma once

#include "exporters/framework/exporter.h"

namespace exporters {

/// Traces one forward of a model: what every exporter that starts from an ATen graph does first. Axes that could not
/// stay dynamic are in the program's `specializations` and are logged as warnings. Throws Error.
ExportedProgram trace_model(const ExportSource& model, const NamedInputs& sample_inputs, const DynamoConfig& config);

/// What export.json says of a traced program, but for the packages of a backend.
ExportMetadata describe(const ExportSource& model, const NamedInputs& sample_inputs, const ExportedProgram& program,
                        ExportConfig& config);

}  // namespace exporters
