#pragma once

#include "exporters/graph/exported_program.h"
#include "tests/support/error_of.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace exporters::testing {

/// The tensors of a .safetensors file that are called <prefix>0, <prefix>1, …
std::vector<at::Tensor> numbered(const std::filesystem::path& file, const std::string& prefix);

/// The largest difference between what the interpreter gives for "in0", "in1", … of the file and its "out0", …, of the
/// larger of 1 and the value. Fails the test for other numbers, dtypes or shapes of outputs, and where one has NaN or
/// infinity and the other not.
double difference(const std::shared_ptr<const ExportedProgram>& program, const std::filesystem::path& file);

}  // namespace exporters::testing
