#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace exporters {

/// The array of a NumPy .npy file, as a contiguous CPU tensor of its own. Throws Error, naming the file, for what is
/// not one, is damaged, or holds other things than numbers (objects, strings, records).
at::Tensor load_npy(const std::filesystem::path& path);

/// The arrays of a .npz file (stored or deflated), with their names, in the file's order. Throws Error as above.
std::vector<std::pair<std::string, at::Tensor>> load_npz(const std::filesystem::path& path);

}  // namespace exporters
