#pragma once

#include "exporters/onnx/emit/model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace exporters::onnx::testing {

/// An empty folder for the running test.
inline std::filesystem::path scratch_folder() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  const auto folder = std::filesystem::path(::testing::TempDir()) /
                      (std::string("onnx_") + info->test_suite_name() + "_" + info->name());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::string bytes(std::filesystem::file_size(path), '\0');
  FILE* file = fopen(path.c_str(), "rb");
  EXPECT_EQ(fread(bytes.data(), 1, bytes.size(), file), bytes.size());
  fclose(file);
  return bytes;
}

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  FILE* file = fopen(path.c_str(), "wb");
  fwrite(bytes.data(), 1, bytes.size(), file);
  fclose(file);
}

/// y = x · w + c with x of [batch, 3]; `w` stands in for a weight ([3, 2]), `c` for a constant.
inline OnnxModel linear_model(decltype(OnnxTensor::data) weight) {
  OnnxModel model;
  model.ir_version = ir_version_for_opset(20);
  model.opsets = {{"", 20}};
  model.producer_name = "exporters.cpp";
  OnnxTensor w{"w", OnnxType::kFloat, {3, 2}, std::move(weight)};
  const float one = 1.0f;
  OnnxTensor c{"c", OnnxType::kFloat, {}, InlineBytes{std::string(reinterpret_cast<const char*>(&one), sizeof one)}};
  model.graph.initializers = {std::move(w), std::move(c)};
  model.graph.nodes = {{"matmul", "MatMul", "", {"x", "w"}, {"xw"}, {}}, {"add", "Add", "", {"xw", "c"}, {"y"}, {}}};
  model.graph.inputs = {{"x", OnnxType::kFloat, std::vector<OnnxDim>{"batch", int64_t{3}}}};
  model.graph.outputs = {{"y", OnnxType::kFloat, std::vector<OnnxDim>{"batch", int64_t{2}}}};
  return model;
}

template <typename Callable>
std::string error_of(Callable&& callable) {
  try {
    callable();
  } catch (const std::exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return {};
}

}  // namespace exporters::onnx::testing
