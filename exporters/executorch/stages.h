#pragma once

#include "exporters/executorch/recipe.h"
#include "exporters/framework/exporter.h"
#include "exporters/framework/stages.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace exporters::executorch {

/// The exporter's stages, each in a file of its own. A stage's function registers what the stage consists of; it is
/// called once, by register_executorch_format.
void register_backend_recipes();
void register_torch_patches();
void register_executorch_patches();
void register_program_fixes();
void register_node_fixes();

// What `hfx stages executorch` prints.
Stage backend_preparation_stage();
Stage torch_patches_stage();
Stage executorch_patches_stage();
Stage program_fixes_stage();
Stage node_fixes_stage();

// ── Stage 1: Backend preparation ──

/// Inputs contiguous on the CPU; dtypes stay.
void prepare_for_xnnpack(ExportSource& model, NamedInputs& inputs);
/// The model's floating parameters, buffers and inputs in bfloat16, inputs contiguous, as the reference prepares them.
/// The device stays the CPU: a trace computes nothing.
void prepare_for_cuda(ExportSource& model, NamedInputs& inputs);

// ── Stage 4: Program fixes ──

/// Throws Error for a buffer that the program writes to and that shares memory with another tensor of its state: the
/// runtime has memory of its own for each.
void refuse_shared_state(const ExportedProgram& program);

/// Largest sizes by the name of a Dim or axis ("batch"), by symbol ("s0"), or by input and axis ("input_ids.0").
using MaxDims = std::map<std::string, int64_t>;

/// The largest number of positions that a config.json states, for axes of lengths that `labels` leaves open. Models
/// with rotary positions take longer inputs too; memory is planned for what they were made for.
AxisLabels with_positions(AxisLabels labels, const std::string& config_json);

/// Gives every axis of the inputs a largest size: what `max_dims` says, else what the model's config says of the axis
/// (`labels`). Throws Error that lists the axes that are left without one, and for names that no axis has.
/// Names in `elsewhere` may be in `max_dims` though no axis of this program has them.
void fix_unbounded_ranges(ExportedProgram& program, const AxisLabels& labels, const MaxDims& max_dims,
                          const std::set<std::string>& elsewhere = {});
/// For a trace without ranges from the user: warns of axes whose largest size is what the model's code takes, which
/// says nothing of what anybody needs.
void warn_of_bounds_of_code(const ExportedProgram& program, const AxisLabels& labels, const MaxDims& max_dims);

}  // namespace exporters::executorch
