// Programs that Python's torch.export wrote, lowered and run on ExecuTorch: tests/reference/make_pt2.py and
// make_pt2_cases.py.
#include "exporters/executorch/report.h"
#include "exporters/framework/traced_program.h"
#include "exporters/pt2/load.h"
#include "tests/executorch/exported.h"
#include "tests/executorch/support.h"
#include "tests/reference/pt2_programs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>

namespace exporters::executorch {
namespace {

namespace fs = std::filesystem;

// What cannot be lowered. A case that is listed here and passes fails the test.
constexpr exporters::testing::ExportSkip EXPORT_SKIPS[] = {
    {"pt2", "mixtral", "experts are histc and _grouped_mm: needs decompositions of both"},
    {"pt2", "qwen2_moe", "experts are histc and _grouped_mm: needs decompositions of both"},
    {"pt2", "swin", "adaptive_avg_pool1d has no kernel: needs its two-axis form"},
    {"pt2_cases", "dtypes", "complex numbers have no kernels: needs their parts as an axis"},
    {"pt2_cases", "dynamic_int", "the runtime fixes integers among inputs when a program is made"},
    {"pt2_cases", "shared_parts", "a buffer that is written to lies over another: the runtime keeps them apart"},
    {"pt2_cases", "in_place_parts", "complex numbers and _foreach ops have no kernels: needs decompositions of both"},
    {"pt2_cases", "in_place_shapes", "resize has no kernel: needs a decomposition into a slice and a padded copy"},
};

// Float32 sums in another order, through some layers.
constexpr double kTolerance = 1e-4;

// Every open axis gets a bound that all recorded calls keep.
std::map<std::string, int64_t> bounds_of(const ExportedProgram& program) {
  std::map<std::string, int64_t> bounds;
  for (const auto& [symbol, range] : program.range_constraints) {
    const auto hint = program.hints.find(symbol);
    const int64_t least = std::max<int64_t>(128, hint == program.hints.end() ? 0 : 2 * hint->second);
    if (range.max > least) {
      bounds[symbol] = least;
    }
  }
  return bounds;
}

// A number that the program was made for.
ExecutorchRunner::Value constant(const EValue& value) {
  if (const auto* truth = std::get_if<bool>(&value)) {
    return *truth;
  }
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return *integer;
  }
  const auto* real = std::get_if<double>(&value);
  return real != nullptr ? ExecutorchRunner::Value(*real) : ExecutorchRunner::Value();
}

// Lowers the program and runs it on every recorded call; an empty text when all is as recorded.
std::string check(const fs::path& folder, const char* backend) {
  std::shared_ptr<ExportedProgram> program = load_pt2(folder / "model.pt2");
  TracedModel traced = traced_model(program);
  ExecutorchConfig config;
  config.backend = backend;
  config.max_dims = bounds_of(*program);
  const fs::path target = testing::scratch_folder();
  ExecutorchExporter().export_model(std::move(traced), config).save_pretrained(target);
  for (const fs::path& call : exporters::testing::recorded_calls(folder)) {
    ExecutorchRunner runner(target / "model.pte");  // with the state that the program begins with
    const std::vector<at::Tensor> expected = exporters::testing::recorded_tensors(call, "out");
    const Method& method = runner.program().methods.front();
    std::vector<ExecutorchRunner::Value> inputs;
    std::vector<at::Tensor> tensors = exporters::testing::recorded_tensors(call, "in");
    size_t next = 0;
    for (const int32_t input : method.inputs) {
      inputs.push_back(method.tensor(input) != nullptr ? ExecutorchRunner::Value(tensors.at(next++))
                                                       : constant(method.values[static_cast<size_t>(input)]));
    }
    std::vector<at::Tensor> outputs;
    for (const ExecutorchRunner::Value& output : runner.run(inputs)) {
      if (const auto* tensor = std::get_if<at::Tensor>(&output)) {
        outputs.push_back(*tensor);
      }
    }
    if (outputs.size() > expected.size()) {  // state comes first
      outputs.erase(outputs.begin(), outputs.end() - static_cast<std::ptrdiff_t>(expected.size()));
    }
    const std::string problem = exporters::testing::recorded_difference(outputs, expected, kTolerance);
    if (!problem.empty()) {
      return call.filename().string() + ": " + problem;
    }
  }
  return {};
}

void check_all(const char* scope, const char* backend) {
  testing::use_executorch();
  exporters::testing::check_recorded_programs(scope, EXPORT_SKIPS,
                                              [&](const fs::path& folder) { return check(folder, backend); });
}

TEST(Pt2Programs, OfManyFamiliesRunWithXnnpack) { check_all("pt2", "xnnpack"); }
TEST(Pt2Programs, OfManyFamiliesRunOnKernels) { check_all("pt2", "portable"); }
TEST(Pt2Programs, OfEveryKindOfSignatureRun) { check_all("pt2_cases", "xnnpack"); }

}  // namespace
}  // namespace exporters::executorch
