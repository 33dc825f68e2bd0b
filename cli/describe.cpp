#include "cli/describe.h"

#include "cli/table.h"

#include "exporters/support/quote.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <vector>

namespace hfx {
namespace {

using exporters::OutputError;
using exporters::QuantizationSummary;
using exporters::ValueDescription;
using nlohmann::ordered_json;

ordered_json dims_json(const std::vector<std::string>& dims) {
  ordered_json result = ordered_json::array();
  for (const std::string& dim : dims) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(dim.data(), dim.data() + dim.size(), size);
    const bool is_number = error == std::errc() && end == dim.data() + dim.size();
    result.push_back(is_number ? ordered_json(size) : ordered_json(dim));
  }
  return result;
}

ordered_json values_json(const std::vector<ValueDescription>& values) {
  ordered_json result = ordered_json::object();
  for (const ValueDescription& value : values) {
    result[value.name] = {{"dtype", value.dtype}, {"shape", dims_json(value.dims)}};
  }
  return result;
}

ordered_json quantization_json(const QuantizationSummary& summary) {
  ordered_json result = {
      {"scheme", summary.scheme},           {"weights", summary.weights},     {"bytes_before", summary.bytes_before},
      {"bytes_after", summary.bytes_after}, {"kept", ordered_json::object()}, {"errors", ordered_json::object()}};
  for (const auto& [name, reason] : summary.kept) {
    result["kept"][name] = reason;
  }
  for (const OutputError& error : summary.errors) {
    result["errors"][error.output] = {{"max_abs", error.max_abs}, {"relative", error.relative}};
  }
  if (!summary.unmeasured.empty()) {
    result["unmeasured"] = summary.unmeasured;
  }
  return result;
}

// In the order in which the reasons come first.
std::vector<std::pair<std::string, std::vector<std::string>>> by_reason(
    const std::vector<std::pair<std::string, std::string>>& kept) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const auto& [name, reason] : kept) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&, &reason = reason](const auto& each) { return each.first == reason; });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), {reason, {}});
    }
    group->second.push_back(name);
  }
  return groups;
}

std::string error_text(const OutputError& error) {
  return fmt::format("{} is off by at most {:.2g}, relative {:.2g}", error.output, error.max_abs, error.relative);
}

}  // namespace

std::string description_text(const exporters::ProgramDescription& description) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [kind, values] : {std::pair("input", &description.inputs), {"output", &description.outputs}}) {
    for (const ValueDescription& value : *values) {
      rows.push_back({kind, value.name, value.dtype, shape_text(value.dims)});
    }
  }
  return table({"", "name", "dtype", "shape"}, rows) + conditions_text(description.conditions);
}

ordered_json description_json(const exporters::ProgramDescription& description) {
  ordered_json result = {{"inputs", values_json(description.inputs)},
                         {"outputs", values_json(description.outputs)},
                         {"conditions", description.conditions}};
  if (description.quantization) {
    result["quantization"] = quantization_json(*description.quantization);
  }
  return result;
}

std::string quantization_text(const QuantizationSummary& summary) {
  std::string text =
      fmt::format("Rounded {} weights ({}): {} became {}.\n", summary.weights, summary.scheme,
                  exporters::short_bytes_text(summary.bytes_before), exporters::short_bytes_text(summary.bytes_after));
  for (const auto& [reason, names] : by_reason(summary.kept)) {
    const std::string more = names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : "";
    text += fmt::format("Not rounded: {}{} ({}).\n", names.front(), more, reason);
  }
  if (!summary.unmeasured.empty()) {
    return text + "Error not measured: " + summary.unmeasured + "\n";
  }
  const auto worst =
      std::max_element(summary.errors.begin(), summary.errors.end(),
                       [](const OutputError& a, const OutputError& b) { return a.relative < b.relative; });
  if (worst != summary.errors.end()) {
    text += "Error on the sample inputs: " + error_text(summary.errors.front());
    text += worst == summary.errors.begin() ? ".\n" : "; the largest: " + error_text(*worst) + ".\n";
  }
  return text;
}

}  // namespace hfx
