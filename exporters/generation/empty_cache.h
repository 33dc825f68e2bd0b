#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/graph/pytree.h"
#include "exporters/models/pretrained.h"
#include "exporters/trace/trace.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace exporters {

/// A cache without tokens, of the classes that the model itself makes in a forward: what a prefill takes.
/// @param max_cache_len room of a StaticCache; nothing: a cache that grows. Layers with a sliding window have that room
///        too, and the mask applies the window; the encoder's keys of an encoder-decoder model are computed once, as
///        many as they are
/// Throws Error where the model has no scores of a next token or no cache, and for a static cache of states.
PyTree empty_cache(const std::shared_ptr<const models::PreTrainedModel>& model,
                   std::optional<int64_t> max_cache_len = {});

/// Whether a cache that grows has layers with a sliding window.
bool has_windows(const PyTree& cache);

/// A forward of the model, with a cache where it has one, traced on these inputs.
ExportedProgram traced_forward(const std::shared_ptr<const models::PreTrainedModel>& model, const NamedInputs& inputs,
                               bool dynamic);

/// What generation reads of a forward's output. Throws Error when it has no "logits" [batch, queries, vocabulary] or no
/// "cache".
void check_generates(const PyTree& output, const std::string& model);

/// A model's parameters and buffers as a trace takes them.
std::vector<TracedState> traced_state(const models::PreTrainedModel& model);

/// Whether the model's forward has that argument.
bool takes_argument(const models::PreTrainedModel& model, std::string_view name);

}  // namespace exporters
