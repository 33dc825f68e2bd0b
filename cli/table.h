#pragma once

#include <string>
#include <vector>

namespace hfx {

/// Rows under a header, columns aligned, control characters escaped. Ends with a newline.
std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

/// Words, comma-separated, in indented lines of at most 100 columns, each line ended.
std::string paragraph(const std::vector<std::string>& words);

/// "Sizes: 1 <= sequence <= 512" on a line of its own after an empty one, both bounds of a size in one place; nothing
/// where there are no conditions.
std::string conditions_text(const std::vector<std::string>& conditions);

/// "[batch, 8]"
std::string shape_text(const std::vector<std::string>& dims);

}  // namespace hfx
