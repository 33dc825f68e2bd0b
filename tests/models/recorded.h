#pragma once

#include "exporters/graph/pytree.h"
#include "exporters/models/forward.h"
#include "exporters/weights/safetensors.h"
#include "tests/reference/folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace exporters::testing {

/// One forward of the reference, as tests/reference/make_models.py records it.
struct Recorded {
  explicit Recorded(const std::filesystem::path& file);

  models::ForwardArgs args;                   ///< tensors and flags
  std::map<std::string, at::Tensor> outputs;  ///< by dotted path
  std::string type;                           ///< the output's class, or "tuple"
  std::vector<std::string> keys;              ///< the output's fields, in order
};

/// The largest |actual - expected| in float32. Fails when shapes or dtypes differ.
double largest_difference(const at::Tensor& actual, const at::Tensor& expected);

/// Class, fields, and every tensor within `tolerance` of the recorded one.
void expect_recorded(const PyTree& output, const Recorded& recorded, double tolerance);

/// reference_folder("models").
std::filesystem::path reference_models();
/// The io_*.safetensors of a case, sorted; all of them when `prefix` is "io_".
std::vector<std::filesystem::path> recordings(const std::filesystem::path& folder, std::string_view prefix = "io_");

/// The message of the Error that `action` throws; fails when it throws none.
template <typename Action>
std::string error_of(Action&& action);

}  // namespace exporters::testing

#include "exporters/support/error.h"

template <typename Action>
std::string exporters::testing::error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}
