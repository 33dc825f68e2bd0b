#pragma once

#include "exporters/framework/exporter.h"

namespace exporters {

/// Traces one forward of a model through all stages, with what export.json says of it: what every exporter that starts
/// from an ATen graph does first. Axes that could not stay dynamic are in the program's `specializations` and are
/// logged as warnings. Throws Error.
TracedModel trace_model(const ExportSource& model, const NamedInputs& sample_inputs, DynamoConfig& config);

/// Puts the stages' own patches and pytree nodes into their registries, once.
void register_dynamo_stages();

}  // namespace exporters
