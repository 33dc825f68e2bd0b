#pragma once

#include <string>
#include <vector>

namespace hfx {

/// Rows under a header, columns aligned; numbers-only columns to the right. Ends with a newline.
std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

/// "Sizes: sequence <= 512" on a line of its own after an empty one; nothing where there are no conditions.
std::string conditions_text(const std::vector<std::string>& conditions);

/// "[batch, 8]"
std::string shape_text(const std::vector<std::string>& dims);

}  // namespace hfx
