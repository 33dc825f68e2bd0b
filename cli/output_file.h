#pragma once

#include <string>
#include <vector>

namespace hfx {

/// Throws Error for a file that --output cannot write: any but a .safetensors, and one of the `inputs`, which it would
/// replace. `what`: "outputs".
void check_output_file(const std::string& output, const std::vector<std::string>& inputs, const char* what);

}  // namespace hfx
