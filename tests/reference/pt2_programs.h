#pragma once

#include "exporters/weights/safetensors.h"
#include "tests/reference/folder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace exporters::testing {

/// A program that a backend cannot take yet.
struct ExportSkip {
  const char* scope;   ///< "pt2" (make_pt2.py) or "pt2_cases" (make_pt2_cases.py)
  const char* model;   ///< its name
  const char* reason;  ///< and what would lift it
};

/// Folders with a model.pt2 that Python's exporter wrote, and io_*.safetensors: its inputs (in0, …) and what Python
/// computes of them (out0, …).
inline std::vector<std::filesystem::path> recorded_programs(std::string_view scope) {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  const fs::path all = scope == "pt2" ? reference_folder("pt2") : reference_folder("pt2_cases") / "programs";
  for (const fs::directory_entry& entry : fs::directory_iterator(all)) {
    if (fs::exists(entry.path() / "model.pt2")) {
      folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

inline std::vector<std::filesystem::path> recorded_calls(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> calls;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().native().starts_with("io_")) {
      calls.push_back(entry.path());
    }
  }
  std::sort(calls.begin(), calls.end());
  return calls;
}

/// The tensors <prefix>0, <prefix>1, … of a file.
inline std::vector<at::Tensor> recorded_tensors(const std::filesystem::path& file, const std::string& prefix) {
  const auto tensors = SafetensorsFile::open(file);
  std::vector<at::Tensor> found;
  while (tensors->find(prefix + std::to_string(found.size())) != nullptr) {
    found.push_back(tensors->tensor(prefix + std::to_string(found.size())).clone());
  }
  return found;
}

/// Empty when there are as many outputs as expected, of their dtypes and shapes, none further off than `tolerance`
/// times the larger of 1 and the value.
inline std::string recorded_difference(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& expected,
                                       double tolerance) {
  if (outputs.size() != expected.size()) {
    return fmt::format("{} outputs instead of {}", outputs.size(), expected.size());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (outputs[i].sizes() != expected[i].sizes() || outputs[i].scalar_type() != expected[i].scalar_type()) {
      return fmt::format("output {} is of another shape or dtype", i);
    }
    const bool is_complex = expected[i].is_complex();
    const at::ScalarType wide = is_complex ? at::kComplexDouble : at::kDouble;
    const at::Tensor a = outputs[i].to(wide);
    const at::Tensor b = expected[i].to(wide);
    // Equal infinities and NaN in the same places are no difference.
    const at::Tensor same = a.eq(b).logical_or(a.ne(a).logical_and(b.ne(b)));
    const at::Tensor off = ((a - b).abs() / b.abs().clamp_min(1.0)).masked_fill(same, 0.0);
    const double largest = off.numel() == 0 ? 0 : off.max().item<double>();
    if (!(largest <= tolerance)) {
      return fmt::format("output {} is {} off", i, largest);
    }
  }
  return {};
}

/// Calls `check` on each program's folder; it throws, or returns what is wrong. One that is listed in `skips` and
/// passes fails the test as one that is not and does not; so does a line of `skips` about no program.
inline void check_recorded_programs(std::string_view scope, std::span<const ExportSkip> skips,
                                    const std::function<std::string(const std::filesystem::path&)>& check) {
  size_t used = 0;
  for (const std::filesystem::path& folder : recorded_programs(scope)) {
    const std::string name = folder.filename().string();
    std::string problem;
    try {
      problem = recorded_calls(folder).empty() ? "no recorded call" : check(folder);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    const auto skip = std::find_if(skips.begin(), skips.end(),
                                   [&](const ExportSkip& each) { return each.scope == scope && each.model == name; });
    if (skip == skips.end()) {
      EXPECT_EQ(problem, "") << scope << "/" << name;
      continue;
    }
    ++used;
    EXPECT_NE(problem, "") << scope << "/" << name << " passes: it is no longer to be skipped (" << skip->reason << ")";
  }
  EXPECT_EQ(used,
            std::count_if(skips.begin(), skips.end(), [&](const ExportSkip& each) { return each.scope == scope; }))
      << "a skipped program of " << scope << " is not there";
}

}  // namespace exporters::testing
