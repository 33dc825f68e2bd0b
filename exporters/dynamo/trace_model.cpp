#include "exporters/dynamo/trace_model.h"

#include "exporters/graph/dtype.h"
#include "exporters/support/log.h"
#include "exporters/support/version.h"

#include <torch/version.h>
#include <nlohmann/json.hpp>

namespace exporters {
namespace {

std::string first_floating_dtype(const ExportSource& model) {
  for (const TracedState& state : model.state) {
    if (!state.is_buffer && c10::isFloatingType(state.tensor.scalar_type())) {
      return std::string(dtype_name(state.tensor.scalar_type()));
    }
  }
  return {};
}

}  // namespace

ExportedProgram trace_model(const ExportSource& model, const NamedInputs& sample_inputs, const DynamoConfig& config) {
  TraceRequest request;
  request.module_class = model.architecture;
  request.state = model.state;
  request.inputs = sample_inputs;
  request.forward = model.forward;
  request.dynamic = config.dynamic;
  request.dynamic_shapes = config.dynamic_shapes;
  ExportedProgram program = trace(request);
  for (const Specialization& specialization : program.specializations) {
    log_warning("{}", specialization.str());
  }
  return program;
}

ExportMetadata describe(const ExportSource& model, const NamedInputs& sample_inputs, const ExportedProgram& program,
                        ExportConfig& config) {
  ExportMetadata metadata;
  metadata.architecture = model.architecture;
  metadata.packages = {{"exporters.cpp", std::string(version())}, {"torch", TORCH_VERSION}};
  metadata.export_config = config.to_dict().dump();
  metadata.export_dtype = first_floating_dtype(model);
  describe_inputs(metadata, sample_inputs);
  metadata.out_spec = program.out_spec;
  return metadata;
}

}  // namespace exporters
