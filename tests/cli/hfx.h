#pragma once

#include "exporters/trace/trace.h"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace exporters::testing {

/// What a run of the hfx beside this test program left: its exit code and what it wrote to each stream. Neither stream
/// is a terminal.
struct HfxResult {
  int code = -1;
  std::string out;
  std::string err;
};

/// Runs `hfx args…` and waits. Throws when it cannot be started; an end by signal is the code 128 + signal.
HfxResult hfx(const std::vector<std::string>& args);
/// The same for `sh -c script` in `folder`, where hfx is on the PATH.
HfxResult shell(const std::string& script, const std::filesystem::path& folder);

/// The all-MiniLM-L6-v2 checkpoint that set-up fetched. Throws when it is not there.
std::filesystem::path minilm();
/// A checkpoint that tests/reference/make_models.py wrote.
std::filesystem::path tiny_checkpoint(const std::string& name);

/// What the reference computed in one forward: an io file of make_models.py or make_exports.py.
struct ReferenceRun {
  explicit ReferenceRun(const std::filesystem::path& file);

  std::string type;  ///< the output's class
  NamedInputs inputs;
  std::map<std::string, at::Tensor> outputs;  ///< by dotted path
};

/// Same class, same tensors by name, each within `tolerance` where the attention mask is 1: the reference promises
/// nothing about other positions. Outputs without a position axis are compared whole.
void expect_same(const PyTree& actual, const ReferenceRun& expected, double tolerance);

}  // namespace exporters::testing
