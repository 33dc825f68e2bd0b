#pragma once

#include "exporters/framework/exporter.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// Sample inputs as they are traced, and what was among them that is none.
struct PreparedInputs {
  NamedInputs inputs;
  /// use_cache, output_attentions, output_hidden_states, return_dict, return_loss: settings of the model for this
  /// trace.
  NamedInputs output_flags;
};

/// Makes sample inputs ready for a trace, in this order; the caller's own are left alone:
/// 1. Label inputs (labels, future_values) and return_loss, also in the model's config, are refused: an export computes
///    no loss. Labels that are None are left out.
/// 2. Output flags are taken out.
/// 3. The registered preparers add what the model would otherwise compute from the inputs' data.
/// 4. Floating-point tensors, also inside caches and other containers, take the dtype of the model's first
///    floating-point parameter.
/// Throws Error that says which input is wrong.
PreparedInputs prepare_for_export(const ExportSource& model, const NamedInputs& sample_inputs);

/// use_cache, output_attentions, …
bool is_output_flag(std::string_view name);

/// Adds to the inputs, or replaces, what a forward would compute in ways that cannot be traced: position ids from an
/// image grid, segment boundaries from lengths. It sees real tensors and runs without gradients.
using InputPreparer = std::function<void(const ExportSource& model, NamedInputs& inputs)>;

/// `prepare` runs for every export whose inputs have all of `markers`, none of them None; several that fit run in the
/// order of registration. A second registration for the same markers replaces the first. Throws Error for no markers.
void register_export_input_preparer(std::vector<std::string> markers, InputPreparer prepare, std::string reason = {});

/// The registered preparers, for listings.
struct InputPreparerInfo {
  std::vector<std::string> markers;
  std::string reason;
};
std::vector<InputPreparerInfo> export_input_preparers();

/// Null when there is none of that name.
const PyTree* find_input(const NamedInputs& inputs, std::string_view name);
/// Adds or replaces.
void set_input(NamedInputs& inputs, std::string_view name, PyTree value);

/// The dtype of the first floating-point parameter, or nothing.
std::optional<c10::ScalarType> model_dtype(const ExportSource& model);

}  // namespace exporters
