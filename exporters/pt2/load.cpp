#include "exporters/pt2/load.h"

#include "exporters/pt2/archive.h"
#include "exporters/pt2/extra_json.h"
#include "exporters/pt2/graph_reader.h"
#include "exporters/pt2/guards.h"
#include "exporters/pt2/node_metadata.h"
#include "exporters/pt2/payload.h"
#include "exporters/pt2/schema.h"
#include "exporters/pt2/signature_reader.h"
#include "exporters/pt2/transformers_ops.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/quote.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace exporters {
namespace {

using pt2::as_array;
using pt2::as_int;
using pt2::as_text;
using pt2::find_member;
using pt2::Json;
using pt2::member;

// A program of 60,000 nodes with stack traces has about 100 MB.
constexpr JsonLimits kProgramLimits{
    .max_bytes = uint64_t{256} << 20, .max_depth = 200, .max_values = uint64_t{16} << 20, .allow_nonfinite = false};

void check_schema(const Json& json) {
  const Json& version = member(json, "schema_version");
  const int64_t major = as_int(member(version, "major"));
  const int64_t minor = as_int(member(version, "minor"));
  if (major != pt2::kSchemaMajor) {
    throw Error(fmt::format("The program has the schema {}.{}; {}.x is read", major, minor, pt2::kSchemaMajor), {},
                major < pt2::kSchemaMajor ? "Export the model again with PyTorch 2.9 or later." : "");
  }
}

/// What is said of the call of the whole program.
struct CallSignature {
  TreeSpec in_spec;
  TreeSpec out_spec;
  std::vector<std::string> argument_names;
};

CallSignature read_call(const Json& module_call_graph) {
  for (const Json& entry : as_array(module_call_graph)) {
    const Json* signature = find_member(entry, "signature");
    if (!as_text(member(entry, "fqn")).empty() || signature == nullptr) {
      continue;
    }
    CallSignature call;
    call.in_spec = TreeSpec::loads(as_text(member(*signature, "in_spec")));
    call.out_spec = TreeSpec::loads(as_text(member(*signature, "out_spec")));
    if (const Json* names = find_member(*signature, "forward_arg_names")) {
      for (const Json& name : as_array(*names)) {
        call.argument_names.push_back(as_text(name));
      }
    }
    return call;
  }
  fail("module_call_graph has no entry for the whole program");
}

// The class of the outermost module.
std::string module_class(const Graph& graph) {
  for (const Node& node : graph) {
    if (!node.module_stack().empty() && node.module_stack().front().path.empty()) {
      return std::string(pt2::short_class_name(node.module_stack().front().module_class));
    }
  }
  return {};
}

// The trees of the call have a leaf for each input and output of the user.
void check_call(const ExportedProgram& program) {
  const auto inputs =
      std::count_if(program.signature.inputs.begin(), program.signature.inputs.end(), [](const InputSpec& spec) {
        return spec.kind == InputSpec::Kind::kUserInput || spec.kind == InputSpec::Kind::kConstantInput;
      });
  const auto outputs =
      std::count_if(program.signature.outputs.begin(), program.signature.outputs.end(), [](const OutputSpec& spec) {
        return spec.kind == OutputSpec::Kind::kUserOutput || spec.kind == OutputSpec::Kind::kLossOutput;
      });
  ensure(program.in_spec.leaf_count() == static_cast<size_t>(inputs), "in_spec has {} leaves, the signature {} inputs",
         program.in_spec.leaf_count(), inputs);
  ensure(program.out_spec.leaf_count() == static_cast<size_t>(outputs),
         "out_spec has {} leaves, the signature {} outputs", program.out_spec.leaf_count(), outputs);
}

std::set<std::string> state_names(const GraphSignature& signature) {
  std::set<std::string> names;
  for (const InputSpec& input : signature.inputs) {
    if (!input.target.empty()) {
      names.insert(input.target);
    }
  }
  return names;
}

std::shared_ptr<ExportedProgram> read_program(const Json& json, const pt2::Archive& archive) {
  check_schema(json);
  auto program = std::make_shared<ExportedProgram>();
  const Json& module = member(json, "graph_module");
  const Json& signature = member(module, "signature");
  pt2::Symbols symbols;
  pt2::GraphReader graph(*program->graph, symbols);
  graph.read(member(module, "graph"), pt2::constant_input_names(signature));
  program->signature = pt2::read_signature(signature, graph, *program->graph);
  CallSignature call = read_call(member(module, "module_call_graph"));
  program->in_spec = std::move(call.in_spec);
  program->out_spec = std::move(call.out_spec);
  check_call(*program);
  symbols.finish(member(json, "range_constraints"), *program);
  if (const Json* guards = find_member(json, "guards_code")) {
    pt2::read_guards(*guards, call.argument_names, *program);
  }
  pt2::read_extra(archive, *program);
  program->module_class = module_class(*program->graph);
  program->state = pt2::read_payload(archive, state_names(program->signature));
  verify(*program);
  return program;
}

}  // namespace

std::shared_ptr<ExportedProgram> load_pt2(const std::filesystem::path& file) {
  pt2::register_transformers_ops();
  const pt2::Archive archive = pt2::Archive::open(file);
  const std::string name = fmt::format("{}{}{}", pt2::kModelsFolder, archive.model(), pt2::kModelSuffix);
  try {
    const std::string text = archive.text(name, kProgramLimits.max_bytes);
    return read_program(parse_json(text, name, kProgramLimits), archive);
  } catch (const Error& error) {
    throw error.with_context(quote(file.native(), 400));
  } catch (const c10::Error& error) {
    throw Error(error.what_without_backtrace(), quote(file.native(), 400));
  }
}

}  // namespace exporters
