// Programs that Python's torch.export wrote, as ONNX: tests/reference/make_pt2.py and make_pt2_cases.py.
#include "tests/reference/pt2_programs.h"
#include "exporters/dynamo/exporter.h"
#include "exporters/framework/exported_model.h"
#include "exporters/framework/traced_program.h"
#include "exporters/onnx/exporter.h"
#include "exporters/pt2/load.h"
#include "tests/support/temporary_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace exporters::onnx {
namespace {

namespace fs = std::filesystem;
using exporters::testing::ExportSkip;
using exporters::testing::TemporaryFolder;

// What cannot be exported, with what would lift it.
constexpr ExportSkip EXPORT_SKIPS[] = {
    {"pt2_cases", "in_place_parts", "complex numbers have no operators: needs their parts as an axis"},
    {"pt2_cases", "in_place_shapes", "resize has no operator: needs a decomposition into a slice and a padded copy"},
    {"pt2_cases", "interpolates", "ONNX Runtime rounds sizes of fractional factors otherwise: needs them as sizes"},
    {"pt2_cases", "mutates_buffer", "ONNX has no state: the buffer has to become an input and an output"},
    {"pt2_cases", "mutates_buffer_decomposed", "ONNX has no state: the buffer has to become an input and an output"},
    {"pt2_cases", "shared_parts", "ONNX has no state: the buffer has to become an input and an output"},
    {"pt2_cases", "out_variants", "ONNX has no state: the buffer has to become an input and an output"},
    {"pt2_cases", "dtypes", "complex numbers have no operators: needs their parts as an axis"},
};

// Programs that are right only without our optimizer, with the upstream issue that is the cause.
constexpr std::array<ExportSkip, 0> ONNX_DISABLE_OPTIMIZE = {};

// Another runtime, with sums in another order, over a few layers.
constexpr double kTolerance = 1e-4;

/// The recorded inputs of a call under the names of the program's inputs. Numbers among them are recorded as tensors.
NamedInputs recorded_inputs(const ExportedProgram& program, const fs::path& call) {
  const std::vector<at::Tensor> tensors = exporters::testing::recorded_tensors(call, "in");
  NamedInputs inputs;
  size_t next = 0;
  for (const LeafInfo& leaf : program.input_leaves()) {
    if (!leaf.placeholder.empty()) {
      inputs.emplace_back(leaf.path, tensors.at(next++));
    }
  }
  return inputs;
}

// Numbers among the outputs are not recorded.
bool is_tensor(const ExportedProgram& program, const std::string& path) {
  const std::vector<LeafInfo> leaves = program.output_leaves();
  return std::none_of(leaves.begin(), leaves.end(), [&](const LeafInfo& leaf) {
    const Value* value = leaf.placeholder.empty() ? nullptr : program.graph->find(leaf.placeholder);
    return leaf.path == path && value != nullptr && !value->is_tensor();
  });
}

std::string check(const fs::path& folder, bool optimize) {
  [[maybe_unused]] static const bool registered = (register_onnx_backend(), true);
  // As an export of the file takes it: what it says of its values is held against what its ops give.
  const std::shared_ptr<ExportedProgram> program = DynamoExporter().load_program(folder / "model.pt2")->traced();
  const TracedModel given = traced_model(load_pt2(folder / "model.pt2"));  // an export changes its program
  const TemporaryFolder target;
  OnnxConfig config;
  config.optimize = optimize;
  OnnxExporter().export_model(traced_model(program), config).save_pretrained(target / "out");
  const ExportedModel exported = ExportedModel::from_pretrained(target / "out");
  OnnxComponentRunner runner(exported.component());
  for (const fs::path& call : exporters::testing::recorded_calls(folder)) {
    std::vector<at::Tensor> outputs;
    const PyTree result = runner.run(recorded_inputs(*given.program, call));
    for (const auto& [path, tensor] : result.tensors()) {
      if (is_tensor(*given.program, path)) {
        outputs.push_back(tensor);
      }
    }
    const std::string problem =
        exporters::testing::recorded_difference(outputs, exporters::testing::recorded_tensors(call, "out"), kTolerance);
    if (!problem.empty()) {
      return call.filename().string() + ": " + problem;
    }
  }
  return {};
}

void check_all(std::string_view scope) {
  exporters::testing::check_recorded_programs(scope, EXPORT_SKIPS, [&](const fs::path& folder) {
    const bool unoptimized = std::any_of(
        ONNX_DISABLE_OPTIMIZE.begin(), ONNX_DISABLE_OPTIMIZE.end(),
        [&](const ExportSkip& each) { return each.scope == scope && each.model == folder.filename().string(); });
    if (unoptimized && check(folder, /*optimize=*/true).empty()) {
      return std::string("it passes with the optimizer: it is no longer to be listed in ONNX_DISABLE_OPTIMIZE");
    }
    return check(folder, !unoptimized);
  });
}

TEST(Pt2Programs, OfManyFamiliesGiveInOnnxRuntimeWhatTheModelGives) { check_all("pt2"); }
TEST(Pt2Programs, OfEveryKindGiveInOnnxRuntimeWhatTheModuleGives) { check_all("pt2_cases"); }

}  // namespace
}  // namespace exporters::onnx
