#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace exporters::testing {

/// A safetensors file of this header and data; the declared header length can lie.
inline std::string safetensors_text(std::string_view header, std::string_view data = {}, int64_t length = -1) {
  uint64_t declared = length < 0 ? header.size() : static_cast<uint64_t>(length);
  std::string text(8, '\0');
  std::memcpy(text.data(), &declared, 8);
  return text.append(header).append(data);
}

/// "name": a tensor of the header.
inline std::string tensor_text(std::string_view name, std::string_view dtype, std::string_view shape,
                               std::string_view offsets) {
  return std::string("\"")
      .append(name)
      .append(R"(":{"dtype":")")
      .append(dtype)
      .append(R"(","shape":)")
      .append(shape)
      .append(R"(,"data_offsets":)")
      .append(offsets)
      .append("}");
}

}  // namespace exporters::testing
