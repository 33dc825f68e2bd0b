#include "exporters/dynamo/trace_model.h"

#include "exporters/dynamo/stages.h"
#include "exporters/framework/pytree_nodes.h"
#include "exporters/graph/dtype.h"
#include "exporters/patching/scope.h"
#include "exporters/support/log.h"
#include "exporters/support/version.h"

#include <torch/version.h>
#include <nlohmann/json.hpp>

namespace exporters {
namespace {

ExportMetadata describe(const ExportSource& model, const NamedInputs& inputs, const ExportedProgram& program,
                        DynamoConfig& config) {
  ExportMetadata metadata;
  metadata.architecture = model.architecture;
  metadata.packages = {{"exporters.cpp", std::string(version())}, {"torch", TORCH_VERSION}};
  metadata.export_config = config.to_dict().dump();
  if (const auto dtype = model_dtype(model)) {
    metadata.export_dtype = std::string(dtype_name(*dtype));
  }
  describe_inputs(metadata, inputs);
  metadata.out_spec = program.out_spec;
  return metadata;
}

// Axes that have no Dim show under the model's own names for them.
void name_axes(ExportedProgram& program, const AxisLabels& labels) {
  std::map<std::string, std::string> names;  // name → symbol
  for (const auto& [symbol, name] : program.dim_names) {
    names.emplace(name, symbol);
  }
  for (const LeafInfo& leaf : program.input_leaves()) {
    const auto axes = labels.find(leaf.path);
    const Value* value = program.graph->find(leaf.placeholder);
    if (axes == labels.end() || value == nullptr || !value->is_tensor()) {
      continue;
    }
    for (const auto& [axis, label] : axes->second) {
      const bool there = axis >= 0 && axis < value->meta().dim() && !label.name.empty();
      const auto symbol = there ? value->meta().sizes[static_cast<size_t>(axis)].as_symbol() : std::nullopt;
      if (symbol && !program.dim_names.contains(symbol->name()) &&
          names.emplace(label.name, symbol->name()).first->second == symbol->name()) {
        program.dim_names.emplace(symbol->name(), label.name);
      }
    }
  }
}

}  // namespace

void register_dynamo_stages() {
  register_model_patches();
  register_cache_pytrees();
}

TracedModel trace_model(const ExportSource& model, const NamedInputs& sample_inputs, DynamoConfig& config) {
  register_dynamo_stages();
  const PreparedInputs prepared = prepare_for_export(model, sample_inputs);

  TraceRequest request;
  request.module_class = model.architecture;
  request.state = model.state;
  request.inputs = prepared.inputs;
  request.forward = patch_forward_signature(model, prepared);  // stage 1
  for (const auto& [name, value] : prepared.inputs) {
    check_pytree_types(value.spec(), "input '" + name + "'");  // stage 3
  }
  request.dynamic = config.dynamic;
  request.dynamic_shapes = resolve_dynamic_shapes(prepared.inputs, config, model.axis_labels);  // stage 4

  TracedModel traced;
  {
    const PatchScope patches = apply_patches("dynamo");  // stage 2
    const ResetModelState reset(model);                  // stage 5
    traced.program = std::make_shared<ExportedProgram>(trace(request));
  }
  check_pytree_types(traced.program->out_spec, "the output of " + model.architecture);
  for (const Specialization& specialization : traced.program->specializations) {
    log_warning("{}", specialization.str());
  }
  name_axes(*traced.program, model.axis_labels);
  traced.metadata = describe(model, prepared.inputs, *traced.program, config);
  traced.axis_labels = model.axis_labels;
  traced.index_limits = model.index_limits;
  return traced;
}

}  // namespace exporters
