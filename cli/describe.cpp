#include "cli/describe.h"

#include "cli/table.h"

#include <nlohmann/json.hpp>

#include <charconv>
#include <vector>

namespace hfx {
namespace {

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
  return {{"inputs", values_json(description.inputs)},
          {"outputs", values_json(description.outputs)},
          {"conditions", description.conditions}};
}

}  // namespace hfx
