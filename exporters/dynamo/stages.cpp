#include "exporters/dynamo/stages.h"

#include "exporters/dynamo/exporter.h"
#include "exporters/framework/pytree_nodes.h"

namespace exporters {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " + ") + word;
  }
  return text;
}

std::vector<StageEntry> preparer_entries() {
  std::vector<StageEntry> entries;
  for (const InputPreparerInfo& preparer : export_input_preparers()) {
    entries.push_back({"input preparer", joined(preparer.markers), preparer.markers, preparer.reason, {}});
  }
  return entries;
}

std::vector<StageEntry> model_patch_entries() {
  std::vector<StageEntry> entries = op_patch_entries("dynamo");
  for (StageEntry& entry : function_patch_entries("dynamo", "models.")) {
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<StageEntry> pytree_entries() {
  std::vector<StageEntry> entries;
  for (const PytreeNode& node : pytree_nodes()) {
    entries.push_back({"pytree node", joined(node.types), node.types, node.reason, {}});
  }
  return entries;
}

std::vector<StageEntry> state_entries() {
  std::vector<StageEntry> entries;
  for (const StatefulCacheAttr& attr : stateful_cache_attrs()) {
    entries.push_back({"stateful attribute", attr.name, {}, attr.reason, {}});
  }
  return entries;
}

}  // namespace

std::vector<Stage> DynamoExporter::stages() const {
  return {
      {1, "Forward signature",
       "The model is called with exactly the sample inputs, by their names. Output flags (use_cache, "
       "output_attentions, "
       "output_hidden_states, return_dict, return_loss) replace what its config says, for this trace. Inputs that a "
       "forward would compute from data are prepared before it.",
       "A source sets ExportSource::forward and with_output_flags; register_export_input_preparer(markers, prepare).",
       preparer_entries()},
      {2, "Model patches",
       "Methods of models, and torch ops, are swapped while the trace runs, for what cannot be traced otherwise.",
       "Declare a PatchPoint where the method lives; register_patch(\"dynamo\", {paths}, factory, notes).",
       model_patch_entries()},
      {3, "Pytree registration",
       "Caches and types of a user flatten to leaves and a JSON context, and back. Lists, tuples, dicts and every "
       "ModelOutput need no entry.",
       "register_pytree_node<T>(types, flatten_to_context, unflatten_from_context).", pytree_entries()},
      {4,
       "Dynamic shapes",
       "dynamic = true makes every axis of every tensor symbolic, also in caches; dynamic_shapes overrides single "
       "axes: "
       "static, automatic, a named Dim with a range, or one derived from it (2*batch + 1).",
       "Kinds of Dim are in exporters/symbolic/dim.h, their texts in exporters/framework/dynamic_shapes.h.",
       {}},
      {5, "State cleanup",
       "Attributes in which a module keeps tensors from one forward to the next are cleared for the trace and restored "
       "after it.",
       "register_stateful_cache_attr(name, reason); the source lists where its modules have it.", state_entries()},
  };
}

}  // namespace exporters
