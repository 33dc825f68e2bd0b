#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// A name as messages show it: in single quotes, control characters escaped, at most `max` bytes (cut between
/// UTF-8 characters). For every text that comes out of a file.
std::string quote(std::string_view text, size_t max = 120);

/// The text with control characters escaped: what a terminal may be shown.
std::string printable(std::string_view text);

/// "[3, 4]"
std::string shape_text(const std::vector<int64_t>& shape);

/// "1234567 bytes (1.2 MB)", for messages; without the second part below 10,000 bytes.
std::string bytes_text(uint64_t nbytes);
/// "1.2 MB", "412 B", for tables: decimal units.
std::string short_bytes_text(uint64_t nbytes);

}  // namespace exporters
