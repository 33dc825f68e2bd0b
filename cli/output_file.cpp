#include "cli/output_file.h"

#include "exporters/support/error.h"

#include <filesystem>

namespace hfx {

void check_output_file(const std::string& output, const std::vector<std::string>& inputs, const char* what) {
  exporters::ensure(!output.empty(), "--output names no file");
  exporters::ensure(output.ends_with(".safetensors"), "{} are written as .safetensors, not as '{}'", what, output);
  for (const std::string& input : inputs) {
    std::error_code not_there;
    exporters::ensure(!std::filesystem::equivalent(output, input, not_there), "--output would replace the inputs in {}",
                      input);
  }
}

}  // namespace hfx
