#include "tests/pt2/saved_program.h"

#include "exporters/pt2/load.h"
#include "exporters/pt2/save.h"
#include "exporters/support/atomic_file.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/weights/safetensors.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>

namespace exporters::testing {
namespace {

namespace fs = std::filesystem;

PyTree copy_of(const PyTree& tree) {
  std::vector<PyTree::Leaf> leaves = tree.flatten();
  for (PyTree::Leaf& leaf : leaves) {
    if (auto* tensor = std::get_if<at::Tensor>(&leaf)) {
      leaf = tensor->clone();
    }
  }
  return PyTree::unflatten(tree.spec(), std::move(leaves));
}

// A forward may write to its inputs.
NamedInputs copy_of(const NamedInputs& inputs) {
  NamedInputs copies;
  for (const auto& [name, value] : inputs) {
    copies.emplace_back(name, copy_of(value));
  }
  return copies;
}

nlohmann::json constant_json(const PyTree& value) {
  return std::visit(
      [](const auto& leaf) -> nlohmann::json {
        using T = std::decay_t<decltype(leaf)>;
        if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, at::Tensor>) {
          return nullptr;
        } else {
          return leaf;
        }
      },
      value.leaf());
}

void expect_same(const PyTree& actual, const PyTree& expected) {
  EXPECT_EQ(actual.spec().dumps(), expected.spec().dumps());
  const auto actual_tensors = actual.tensors();
  const auto expected_tensors = expected.tensors();
  ASSERT_EQ(actual_tensors.size(), expected_tensors.size());
  for (size_t i = 0; i < actual_tensors.size(); ++i) {
    EXPECT_TRUE(at::allclose(actual_tensors[i].second, expected_tensors[i].second, 1e-6, 1e-6))
        << actual_tensors[i].first;
  }
}

}  // namespace

std::string comparable_text(const ExportedProgram& program) {
  const std::string left_out[] = {"    # (root)\n", "    #  (" + program.module_class + ")\n", "_tuple"};
  std::string text = program.str();
  for (const std::string& part : left_out) {
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
      text.erase(at, part.size());
    }
  }
  return text;
}

fs::path pt2_files() {
  const char* folder = std::getenv("EXPORTERS_PT2_FILES");
  const fs::path path = folder != nullptr ? fs::path(folder) : fs::temp_directory_path() / "exporters_pt2_files";
  fs::create_directories(path);
  return path;
}

SavedProgram::SavedProgram(std::string name, const TraceRequest& request, Nodes nodes)
    : SavedProgram(std::move(name), trace(request), request, nodes) {}

SavedProgram::SavedProgram(std::string name, ExportedProgram program, const TraceRequest& request, Nodes nodes)
    : name_(std::move(name)), request_(request), program_(std::move(program)) {
  for (const auto& entry : fs::directory_iterator(pt2_files())) {
    if (entry.path().filename().string().starts_with(name_ + ".")) {
      fs::remove(entry.path());
    }
  }
  save_pt2(program_, file());
  const std::shared_ptr<const ExportedProgram> loaded = load_pt2(file());
  if (nodes == Nodes::kAsTraced) {
    EXPECT_EQ(comparable_text(*loaded), comparable_text(program_));
  }
  loaded_ = std::make_unique<Interpreter>(loaded);
  for (const auto& [input, value] : request.inputs) {
    if (value.is_leaf() && !value.is_tensor()) {
      constants_.emplace_back(input, value);
    }
  }
}

SavedProgram::~SavedProgram() {
  nlohmann::json calls = nlohmann::json::array();
  for (const Call& call : calls_) {
    calls.push_back({{"inputs", call.inputs}, {"outputs", call.outputs}});
  }
  nlohmann::json constants = nlohmann::json::object();
  for (const auto& [input, value] : constants_) {
    constants[input] = constant_json(value);
  }
  const nlohmann::json tasks = {
      {"calls", calls}, {"refused", refused_}, {"checkpoint", checkpoint_},     {"constants", constants},
      {"onnx", onnx_},  {"samples", samples_}, {"class", program_.module_class}};
  write_file(pt2_files() / (name_ + ".tasks.json"), pretty_json(tasks));
}

fs::path SavedProgram::file() const { return pt2_files() / (name_ + ".pt2"); }

void SavedProgram::expect_call(const NamedInputs& inputs) {
  const std::string input_file = write_inputs(inputs);
  const at::NoGradGuard no_grad;
  std::vector<std::pair<std::string, at::Tensor>> outputs;
  const PyTree expected = request_.forward(copy_of(inputs));
  expect_same((*loaded_)({}, PyTree::dict(copy_of(inputs))), expected);
  for (const PyTree::Leaf& leaf : expected.flatten()) {
    if (const auto* tensor = std::get_if<at::Tensor>(&leaf)) {
      outputs.emplace_back(fmt::format("{:03}", outputs.size()), tensor->contiguous().clone());
    }
  }
  calls_.push_back({input_file, write("outputs", outputs)});
}

void SavedProgram::expect_eager(const NamedInputs& inputs, const std::string& checkpoint) {
  checkpoint_ = checkpoint;
  const at::NoGradGuard no_grad;
  expect_same((*loaded_)({}, PyTree::dict(copy_of(inputs))), request_.forward(copy_of(inputs)));
  calls_.push_back({write_inputs(inputs), {}});
}

void SavedProgram::expect_refused(const NamedInputs& inputs) {
  EXPECT_THROW((*loaded_)({}, PyTree::dict(copy_of(inputs))), Error);
  refused_.push_back(write_inputs(inputs));
}

std::string SavedProgram::write_inputs(const NamedInputs& inputs) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& [name, value] : inputs) {
    for (const auto& [path, tensor] : value.tensors()) {
      tensors.emplace_back(path.empty() ? name : name + "." + path, tensor.contiguous());
    }
  }
  return write("inputs", tensors);
}

std::string SavedProgram::write(const std::string& what,
                                const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  const std::string file = fmt::format("{}.{}{}.safetensors", name_, what, written_++);
  save_safetensors(pt2_files() / file, tensors);
  return file;
}

}  // namespace exporters::testing
