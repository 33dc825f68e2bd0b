#include "tests/pt2/saved_program.h"

#include "exporters/pt2/save.h"
#include "exporters/support/atomic_file.h"
#include "exporters/support/json.h"
#include "exporters/weights/safetensors.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
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

}  // namespace

fs::path pt2_files() {
  const char* folder = std::getenv("EXPORTERS_PT2_FILES");
  const fs::path path = folder != nullptr ? fs::path(folder) : fs::temp_directory_path() / "exporters_pt2_files";
  fs::create_directories(path);
  return path;
}

SavedProgram::SavedProgram(std::string name, const TraceRequest& request)
    : name_(std::move(name)), request_(request), program_(trace(request)) {
  for (const auto& entry : fs::directory_iterator(pt2_files())) {
    if (entry.path().filename().string().starts_with(name_ + ".")) {
      fs::remove(entry.path());
    }
  }
  save_pt2(program_, file());
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
  for (const PyTree::Leaf& leaf : request_.forward(copy_of(inputs)).flatten()) {
    if (const auto* tensor = std::get_if<at::Tensor>(&leaf)) {
      outputs.emplace_back(fmt::format("{:03}", outputs.size()), tensor->contiguous().clone());
    }
  }
  calls_.push_back({input_file, write("outputs", outputs)});
}

void SavedProgram::expect_eager(const NamedInputs& inputs, const std::string& checkpoint) {
  checkpoint_ = checkpoint;
  calls_.push_back({write_inputs(inputs), {}});
}

void SavedProgram::expect_refused(const NamedInputs& inputs) { refused_.push_back(write_inputs(inputs)); }

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
