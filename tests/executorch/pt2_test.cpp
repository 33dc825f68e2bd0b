// Programs that Python's torch.export wrote, lowered and run on ExecuTorch: tests/reference/make_pt2.py and
// make_pt2_cases.py.
#include "exporters/executorch/report.h"
#include "exporters/framework/traced_program.h"
#include "exporters/pt2/load.h"
#include "exporters/weights/safetensors.h"
#include "tests/executorch/exported.h"
#include "tests/executorch/support.h"
#include "tests/reference/folder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>

namespace exporters::executorch {
namespace {

namespace fs = std::filesystem;
using exporters::testing::reference_folder;

struct Skip {
  const char* scope;   // folder of the fixtures
  const char* model;   // a prefix of its name; "" for all
  const char* reason;  // and what would lift it
};

// What cannot be lowered. A case that is listed here and passes fails the test.
constexpr Skip EXPORT_SKIPS[] = {
    {"pt2", "mixtral", "experts are histc and _grouped_mm: needs decompositions of both"},
    {"pt2", "qwen2_moe", "experts are histc and _grouped_mm: needs decompositions of both"},
    {"pt2", "swin", "adaptive_avg_pool1d has no kernel: needs its two-axis form"},
    {"pt2", "yolos", "upsample_bicubic2d has no kernel: needs a decomposition into gathers"},
    {"pt2_cases", "conditional", "cond: needs its branches emitted behind JumpFalse instructions"},
    {"pt2_cases", "conditional_decomposed", "cond: needs its branches emitted behind JumpFalse instructions"},
    {"pt2_cases", "dtypes", "complex numbers have no kernels: needs their parts as an axis"},
    {"pt2_cases", "dynamic_int", "the runtime fixes integers among inputs when a program is made"},
    {"pt2_cases", "shared_parts", "a buffer that is written to lies over another: the runtime keeps them apart"},
    {"pt2_cases", "in_place_parts", "complex numbers and _foreach ops have no kernels: needs decompositions of both"},
    {"pt2_cases", "in_place_shapes", "resize has no kernel: needs a decomposition into a slice and a padded copy"},
    {"pt2_cases", "loops", "while_loop: needs its body emitted with a backward jump"},
    {"pt2_cases", "without_gradients", "wrap_with_set_grad_enabled: needs its subgraph in the place of the call"},
};

const Skip* skip_of(std::string_view scope, std::string_view model) {
  const auto* found = std::find_if(std::begin(EXPORT_SKIPS), std::end(EXPORT_SKIPS),
                                   [&](const Skip& skip) { return skip.scope == scope && skip.model == model; });
  return found == std::end(EXPORT_SKIPS) ? nullptr : found;
}

fs::path folder_of(std::string_view scope) {
  return scope == "pt2" ? reference_folder("pt2") : reference_folder("pt2_cases") / "programs";
}

std::vector<std::string> programs_of(const char* scope) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_of(scope))) {
    if (fs::exists(entry.path() / "model.pt2")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The recorded tensors <prefix>0, <prefix>1, … of a file.
std::vector<at::Tensor> numbered(const fs::path& file, const std::string& prefix) {
  const auto tensors = SafetensorsFile::open(file);
  std::vector<at::Tensor> found;
  while (tensors->find(prefix + std::to_string(found.size())) != nullptr) {
    found.push_back(tensors->tensor(prefix + std::to_string(found.size())).clone());
  }
  return found;
}

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
  size_t calls = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().native().starts_with("io_")) {
      continue;
    }
    ExecutorchRunner runner(target / "model.pte");  // with the state that the program begins with
    const std::vector<at::Tensor> expected = numbered(entry.path(), "out");
    const Method& method = runner.program().methods.front();
    std::vector<ExecutorchRunner::Value> inputs;
    std::vector<at::Tensor> tensors = numbered(entry.path(), "in");
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
    if (outputs.size() < expected.size()) {
      return fmt::format("{}: {} outputs", entry.path().filename().string(), outputs.size());
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      const at::Tensor& actual = outputs[outputs.size() - expected.size() + i];
      if (actual.sizes() != expected[i].sizes() || actual.scalar_type() != expected[i].scalar_type()) {
        return fmt::format("{}: output {} is of another kind", entry.path().filename().string(), i);
      }
      const at::Tensor a = actual.to(at::kDouble);
      const at::Tensor b = expected[i].to(at::kDouble);
      // Float32 sums in another order through some layers; 1e-4 of the larger of 1 and the value.
      const at::Tensor off = ((a - b).abs() / b.abs().clamp_min(1.0)).nan_to_num(0.0);
      const double largest = off.numel() == 0 ? 0 : off.max().item<double>();
      if (!(largest <= 1e-4)) {
        return fmt::format("{}: output {} is {} off", entry.path().filename().string(), i, largest);
      }
    }
    ++calls;
  }
  return calls == 0 ? "no recorded call" : "";
}

void check_all(const char* scope, const char* backend) {
  testing::use_executorch();
  const fs::path folder = folder_of(scope);
  for (const std::string& name : programs_of(scope)) {
    std::string problem;
    try {
      problem = check(folder / name, backend);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    const Skip* skip = skip_of(scope, name);
    if (skip == nullptr) {
      EXPECT_EQ(problem, "") << scope << "/" << name << " for " << backend;
    } else {
      EXPECT_NE(problem, "") << scope << "/" << name << " passes: it is no longer to be skipped (" << skip->reason
                             << ")";
    }
  }
}

TEST(Pt2Programs, OfManyFamiliesRunWithXnnpack) { check_all("pt2", "xnnpack"); }
TEST(Pt2Programs, OfManyFamiliesRunOnKernels) { check_all("pt2", "portable"); }
TEST(Pt2Programs, OfEveryKindOfSignatureRun) { check_all("pt2_cases", "xnnpack"); }

}  // namespace
}  // namespace exporters::executorch
