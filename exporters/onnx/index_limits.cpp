#include "exporters/onnx/index_limits.h"

#include "exporters/support/json.h"

#include <nlohmann/json.hpp>

namespace exporters::onnx {

std::string to_metadata(const IndexLimits& limits) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  for (const auto& [input, limit] : limits) {
    document[input] = {{"limit", limit.limit}, {"note", limit.note}};
  }
  return document.dump();
}

IndexLimits index_limits_of(const OnnxMetadata& metadata) {
  IndexLimits limits;
  for (const auto& [key, text] : metadata) {
    if (key != kIndexLimitsKey) {
      continue;
    }
    const nlohmann::json document = parse_json(text, kIndexLimitsKey);
    const JsonField root(document, kIndexLimitsKey);
    for (const std::string& input : root.keys()) {
      const JsonField entry = root.at(input);
      limits[input] = {entry.at("limit").as_int(), entry.at("note").as_string()};
    }
  }
  return limits;
}

}  // namespace exporters::onnx
