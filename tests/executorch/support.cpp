#include "tests/executorch/support.h"

#include "exporters/executorch/emit/writer.h"

#include <ATen/ops/from_blob.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

namespace exporters::executorch::testing {

namespace fs = std::filesystem;

namespace {

std::string test_name() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(info->test_suite_name()) + "_" + info->name();
  std::replace(name.begin(), name.end(), '/', '-');  // of parameters
  return name;
}

nlohmann::json tensor_json(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous();
  const double* begin = flat.const_data_ptr<double>();
  nlohmann::json values = nlohmann::json::array();
  for (const double* value = begin; value != begin + flat.numel(); ++value) {
    values.push_back(std::isfinite(*value) ? nlohmann::json(*value) : nlohmann::json(std::to_string(*value)));
  }
  return {{"dtype", c10::toString(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}, {"values", values}};
}

}  // namespace

fs::path scratch_folder() {
  const auto folder = fs::path(::testing::TempDir()) / ("executorch_" + test_name());
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

int32_t ProgramBuilder::input(c10::ScalarType dtype, std::vector<int32_t> sizes, ShapeDynamism dynamism,
                              std::string name) {
  const int32_t value = method().add(tensor_value(dtype, std::move(sizes), dynamism, std::move(name)));
  method().inputs.push_back(value);
  return value;
}

int32_t ProgramBuilder::constant(const at::Tensor& tensor) {
  TensorValue value = tensor_value(tensor.scalar_type(), {tensor.sizes().begin(), tensor.sizes().end()});
  value.constant = program.add_constant(tensor);
  return method().add(std::move(value));
}

int32_t ProgramBuilder::activation(c10::ScalarType dtype, std::vector<int32_t> sizes, ShapeDynamism dynamism) {
  return method().add(tensor_value(dtype, std::move(sizes), dynamism));
}

int32_t ProgramBuilder::state(std::string name, c10::ScalarType dtype, std::vector<int32_t> sizes,
                              const at::Tensor* initial) {
  TensorValue value = tensor_value(dtype, std::move(sizes), ShapeDynamism::kStatic, name);
  if (initial != nullptr) {
    value.constant = program.add_constant(*initial);
  }
  const int32_t index = method().add(std::move(value));
  memory.state.emplace(index, std::move(name));
  return index;
}

void ProgramBuilder::add(int32_t a, int32_t b, int32_t out) {
  method().call("aten::add", "out", {a, b, method().add(int64_t{1}), out, out});
}

void ProgramBuilder::copy_into(int32_t target, int32_t source) {
  method().call("aten::copy_", "", {target, source, method().add(false), target});
}

fs::path ProgramBuilder::save(const fs::path& path) {
  plan_memory(program, {&memory, 1});
  save_program(program, path);
  return path;
}

ProgramBuilder linear_program(const at::Tensor& weight, const at::Tensor& bias, int32_t rows, ShapeDynamism dynamism) {
  ProgramBuilder builder;
  const int32_t x = builder.input(at::kFloat, {rows, static_cast<int32_t>(weight.size(1))}, dynamism, "x");
  const int32_t w = builder.constant(weight);
  const int32_t b = builder.constant(bias);
  const int32_t y = builder.activation(at::kFloat, {rows, static_cast<int32_t>(weight.size(0))}, dynamism);
  builder.method().call("aten::linear", "out", {x, w, b, y, y});
  builder.output(y);
  return builder;
}

void keep_for_python(const fs::path& file, const std::vector<at::Tensor>& inputs,
                     const std::vector<at::Tensor>& outputs) {
  const char* folder = std::getenv("EXPORTERS_EXECUTORCH_FILES");
  if (folder == nullptr) {
    return;
  }
  fs::create_directories(folder);
  const std::string name = test_name();
  fs::copy_file(file, fs::path(folder) / (name + ".pte"), fs::copy_options::overwrite_existing);
  nlohmann::json call = {{"inputs", nlohmann::json::array()}, {"outputs", nlohmann::json::array()}};
  for (const at::Tensor& tensor : inputs) {
    call["inputs"].push_back(tensor_json(tensor));
  }
  for (const at::Tensor& tensor : outputs) {
    call["outputs"].push_back(tensor_json(tensor));
  }
  write_bytes(fs::path(folder) / (name + ".json"), call.dump());
}

}  // namespace exporters::executorch::testing
