#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace exporters::testing {

/// The folder that tests/reference/make_<name>.py fills: below EXPORTERS_REFERENCE_DIR, which ctest sets, else below
/// the build folder that this program lies in. Throws, saying how to make it, when it is not there.
inline std::filesystem::path reference_folder(const std::string& name) {
  const char* root = std::getenv("EXPORTERS_REFERENCE_DIR");
  const std::filesystem::path folder =
      (root != nullptr ? std::filesystem::path(root)
                       : std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "reference") /
      name;
  if (!std::filesystem::exists(folder / "made_by")) {
    throw std::runtime_error(folder.string() + " is missing: run `ctest -R reference_" + name +
                             "` in the build folder");
  }
  return folder;
}

}  // namespace exporters::testing
