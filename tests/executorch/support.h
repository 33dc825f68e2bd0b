#pragma once

#include "exporters/executorch/emit/memory_plan.h"
#include "exporters/executorch/emit/program.h"
#include "exporters/executorch/runner.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace exporters::executorch::testing {

/// An empty folder for the running test.
std::filesystem::path scratch_folder();

std::string read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, std::string_view bytes);

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

/// A program of one method whose values are added by the caller, planned and saved by save().
struct ProgramBuilder {
  Program program{{Method{}}, {}, {}, {}};
  MethodMemory memory;

  Method& method() { return program.methods[0]; }

  int32_t input(c10::ScalarType dtype, std::vector<int32_t> sizes, ShapeDynamism dynamism = ShapeDynamism::kStatic,
                std::string name = {});
  int32_t constant(const at::Tensor& tensor);
  int32_t activation(c10::ScalarType dtype, std::vector<int32_t> sizes,
                     ShapeDynamism dynamism = ShapeDynamism::kStatic);
  /// A mutable buffer; without an initial tensor it begins with zeros.
  int32_t state(std::string name, c10::ScalarType dtype, std::vector<int32_t> sizes,
                const at::Tensor* initial = nullptr);
  /// out = a + b
  void add(int32_t a, int32_t b, int32_t out);
  void copy_into(int32_t target, int32_t source);
  void output(int32_t value) { method().outputs.push_back(value); }

  /// Plans and writes the program.
  std::filesystem::path save(const std::filesystem::path& path);
};

/// y = x · wᵀ + b with x of [batch ≤ `rows`, in], by the portable kernel.
ProgramBuilder linear_program(const at::Tensor& weight, const at::Tensor& bias, int32_t rows,
                              ShapeDynamism dynamism = ShapeDynamism::kBounded);

/// Keeps a copy of the file, what it was called with and what must come out for the check with executorch's Python
/// (tests/executorch/check_files.py), when ctest asks for it.
void keep_for_python(const std::filesystem::path& file, const std::vector<at::Tensor>& inputs,
                     const std::vector<at::Tensor>& outputs);

}  // namespace exporters::executorch::testing
