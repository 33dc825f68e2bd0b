#include "exporters/dynamo/exporter.h"

#include "exporters/dynamo/foreign_program.h"
#include "exporters/dynamo/trace_model.h"
#include "exporters/framework/call_inputs.h"
#include "exporters/framework/registry.h"
#include "exporters/framework/traced_program.h"
#include "exporters/passes/training_mode.h"
#include "exporters/pt2/load.h"
#include "exporters/pt2/save.h"
#include "exporters/support/error.h"

#include <ATen/ops/scalar_tensor.h>

namespace exporters {

namespace fs = std::filesystem;

namespace {

const ExportedProgram& as_exported(const BackendProgram& program) {
  const auto* dynamo = dynamic_cast<const DynamoProgram*>(&program);
  ensure(dynamo != nullptr, "the program was not made by the Dynamo exporter");
  return *dynamo->program();
}

DynamoConfig& as_dynamo(ExportConfig& config) {
  auto* dynamo = dynamic_cast<DynamoConfig*>(&config);
  ensure(dynamo != nullptr, "this exporter traces a forward and takes a DynamoConfig, not the config of '{}'",
         config.export_format());
  return *dynamo;
}

std::shared_ptr<const ExportedProgram> program_of(const ExportedComponent& component) {
  ensure(component.program != nullptr, "the component has no program");
  const auto* dynamo = dynamic_cast<const DynamoProgram*>(component.program.get());
  ensure(dynamo != nullptr, "the program was not made by the Dynamo exporter");
  return dynamo->runnable();
}

ExportedComponent component_of(TracedModel traced, DynamoProgram::Origin origin = DynamoProgram::Origin::kTrace) {
  ExportedComponent component;
  component.program = std::make_shared<DynamoProgram>(std::move(traced.program), origin);
  component.metadata = std::move(traced.metadata);
  return component;
}

}  // namespace

std::shared_ptr<ExportedProgram> DynamoProgram::traced() const {
  if (origin_ == Origin::kFile) {
    refuse_false_metadata(*runnable());
  }
  return program_;
}

std::shared_ptr<const ExportedProgram> DynamoProgram::runnable() const {
  if (origin_ == Origin::kFile) {
    refuse_unknown_ops(*program_);
  }
  return program_;
}

DynamoExporter::DynamoExporter() { register_dynamo_stages(); }

// Dynamo's own are in force while it traces (trace_model), and there is nothing else that it does.
std::string DynamoExporter::patch_backend(const ExportConfig& config) const {
  const bool is_dynamo = export_format() == DynamoExporter::export_format();
  return is_dynamo ? std::string() : HfExporter::patch_backend(config);
}

ExportedComponent DynamoExporter::export_program(const ExportSource& model, const NamedInputs& sample_inputs,
                                                 ExportConfig& config) const {
  return export_traced(trace_model(model, sample_inputs, as_dynamo(config)), config);
}

ExportedComponent DynamoExporter::export_traced(TracedModel traced, ExportConfig&) const {
  refuse_training_mode(*traced.program);
  return component_of(std::move(traced));
}

void DynamoExporter::save_program(const BackendProgram& program, const fs::path& file) const {
  save_pt2(as_exported(program), file);
}

std::shared_ptr<BackendProgram> DynamoExporter::load_program(const fs::path& file) const {
  std::shared_ptr<ExportedProgram> program = load_pt2(file);
  name_positional_arguments(*program);
  return std::make_shared<DynamoProgram>(std::move(program), DynamoProgram::Origin::kFile);
}

ExportedComponent DynamoExporter::open_program(const fs::path& file) const {
  return component_of(traced_model(load_pt2(file)), DynamoProgram::Origin::kFile);
}

ProgramDescription DynamoExporter::describe_program(const BackendProgram& program) const {
  return describe_traced_program(as_exported(program));
}

// ── Running ──

DynamoRunner::DynamoRunner(const ExportedComponent& component) : interpreter_(program_of(component)) {
  const ExportedProgram& program = interpreter_.program();
  const bool is_call = program.in_spec.children.size() == 2 && program.in_spec.children[0].children.empty();
  ensure(is_call, "the program takes positional arguments, and an export is called by name");
  const std::vector<std::string> paths = program.in_spec.children[1].leaf_paths();
  for (const InputSpec& spec : program.signature.inputs) {
    if (spec.kind != InputSpec::Kind::kUserInput && spec.kind != InputSpec::Kind::kConstantInput) {
      continue;
    }
    ensure(inputs_.size() < paths.size(), "in_spec has {} leaves, the signature more user inputs", paths.size());
    Input input{paths[inputs_.size()], false, spec.constant, spec.kind == InputSpec::Kind::kConstantInput};
    const Value* placeholder = program.graph->find(spec.name);
    input.is_integer = !input.is_constant && placeholder != nullptr && !placeholder->is_tensor();
    inputs_.push_back(std::move(input));
  }
  ensure(inputs_.size() == paths.size(), "in_spec has {} leaves, the signature {} user inputs", paths.size(),
         inputs_.size());
}

PyTree DynamoRunner::run(const NamedInputs& inputs) {
  LeavesByPath given(inputs);
  std::vector<at::Tensor> tensors;
  for (const Input& input : inputs_) {
    if (input.is_constant) {
      if (const auto leaf = given.take(input.path)) {
        check_constant(input.path, *leaf, input.constant);
      }
    } else if (input.is_integer) {
      const auto leaf = given.take(input.path);
      const auto* integer = leaf ? std::get_if<int64_t>(&*leaf) : nullptr;
      const auto* tensor = leaf ? std::get_if<at::Tensor>(&*leaf) : nullptr;
      ensure(integer != nullptr || tensor != nullptr, "input '{}' has to be an integer", input.path);
      tensors.push_back(integer != nullptr ? at::scalar_tensor(*integer, at::kLong) : *tensor);
    } else {
      tensors.push_back(given.take_tensor(input.path));
    }
  }
  given.check();
  return PyTree::unflatten(interpreter_.program().out_spec, interpreter_.run(tensors));
}

void register_dynamo_backend() { register_backend<DynamoExporter, DynamoRunner>(); }

}  // namespace exporters
