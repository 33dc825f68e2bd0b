#pragma once

#include "exporters/framework/exporter.h"
#include "exporters/models/pretrained.h"

#include <memory>

namespace exporters {

/// A transformers model as something to export. `flags` are forward arguments that are no tensors
/// (output_hidden_states, use_cache, …): they shape the trace and are no inputs of the program, as in the reference.
/// `with_cache`: a cache with keys will be among the inputs, which says what their axes are called.
ExportSource export_source(std::shared_ptr<const models::PreTrainedModel> model, models::ForwardArgs flags = {},
                           bool with_cache = false);

/// Sample inputs in which a cache comes as its leaves ("cache.layers.0.keys"), with the cache put together: of the
/// classes that the model itself would make for so many rows and earlier tokens. Inputs without dots in their names
/// stay as they are. Throws Error for leaves that the model has no place for, and for missing ones.
NamedInputs with_caches(const models::PreTrainedModel& model, const NamedInputs& inputs);

}  // namespace exporters
