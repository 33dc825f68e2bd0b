#include "exporters/onnx/emit/operators.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace exporters::onnx {

bool gives_bool(std::string_view op) {
  static constexpr std::array<std::string_view, 11> kOps = {
      "And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

bool is_random(std::string_view op) {
  return op.starts_with("Random") || op == "Bernoulli" || op == "Multinomial" || op == "Dropout";
}

bool append_to_key(std::string& key, const OnnxAttribute& attribute) {
  key += ';' + attribute.name + '=';
  return std::visit(
      [&](const auto& data) {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, int64_t>) {
          key += std::to_string(data);
        } else if constexpr (std::is_same_v<T, float>) {
          key += fmt::format("{:a}", data);
        } else if constexpr (std::is_same_v<T, std::string>) {
          key += fmt::format("{}:{}", data.size(), data);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          key += fmt::format("{}", fmt::join(data, ","));
        } else {
          return false;
        }
        return true;
      },
      attribute.data);
}

}  // namespace exporters::onnx
