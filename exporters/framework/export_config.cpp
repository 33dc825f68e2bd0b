#include "exporters/framework/export_config.h"

#include "exporters/support/error.h"
#include "exporters/support/near.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace exporters {

using nlohmann::json;

namespace {

const ConfigField& find_field(const std::vector<ConfigField>& fields, std::string_view name,
                              const std::string& format) {
  std::vector<std::string> names;
  for (const ConfigField& field : fields) {
    if (field.name == name) {
      return field;
    }
    names.push_back(field.name);
  }
  std::string hint = did_you_mean(name, names);
  if (hint.empty()) {
    for (const std::string& each : names) {
      hint += (hint.empty() ? "Fields are: " : ", ") + each;
    }
    hint += ".";
  }
  throw Error("the " + format + " config has no field '" + std::string(name) + "'", {}, std::move(hint));
}

void set_field(const ConfigField& field, const json& value) {
  if (!field.set(value)) {
    throw Error("'" + field.name + "' is " + value.dump() + "; allowed is " + field.allowed);
  }
}

// {"input_ids": {"0": "Dim('batch', max=16)"}}: the reference records the reprs and never reads them back.
json shapes_as_reprs(const DynamicShapes& shapes) {
  if (shapes.empty()) {
    return nullptr;
  }
  json result = json::object();
  for (const auto& [input, axes] : shapes) {
    for (const auto& [axis, dim] : axes) {
      result[input][std::to_string(axis)] = dim.str();
    }
  }
  return result;
}

}  // namespace

json ExportConfig::to_dict() {
  json result = json::object();
  for (const ConfigField& field : fields()) {
    result[field.name] = field.get();
  }
  result["export_format"] = export_format();
  return result;
}

void ExportConfig::from_dict(const json& values) {
  ensure(values.is_object(), "an export config is an object of fields, not {}", values.type_name());
  const std::vector<ConfigField> known = fields();
  for (const auto& [name, value] : values.items()) {
    if (name == "export_format") {
      ensure(value == export_format(), "this config is for the format '{}', not {}", export_format(), value.dump());
      continue;
    }
    set_field(find_field(known, name, export_format()), value);
  }
}

void ExportConfig::set(std::string_view field, std::string_view text) {
  const std::vector<ConfigField> known = fields();
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    value = std::string(text);
  }
  set_field(find_field(known, field, export_format()), value);
}

ConfigField bool_field(std::string name, std::string help, bool& value) {
  return {std::move(name), std::move(help), "true or false", [&value] { return json(value); },
          [&value](const json& given) {
            if (!given.is_boolean()) {
              return false;
            }
            value = given.get<bool>();
            return true;
          }};
}

ConfigField optional_int_field(std::string name, std::string help, std::optional<int64_t>& value, int64_t min,
                               int64_t max) {
  return {std::move(name), std::move(help),
          "an integer from " + std::to_string(min) + " to " + std::to_string(max) + ", or null",
          [&value] { return value ? json(*value) : json(nullptr); },
          [&value, min, max](const json& given) {
            if (given.is_null()) {
              value.reset();
              return true;
            }
            if (!given.is_number_integer() || given.get<int64_t>() < min || given.get<int64_t>() > max) {
              return false;
            }
            value = given.get<int64_t>();
            return true;
          }};
}

ConfigField choice_field(std::string name, std::string help, std::optional<std::string>& value,
                         std::vector<std::string> choices) {
  std::string allowed = "null";
  for (const std::string& choice : choices) {
    allowed += ", \"" + choice + "\"";
  }
  return {std::move(name), std::move(help), "one of " + allowed,
          [&value] { return value ? json(*value) : json(nullptr); },
          [&value, choices](const json& given) {
            if (given.is_null()) {
              value.reset();
              return true;
            }
            if (!given.is_string() ||
                std::find(choices.begin(), choices.end(), given.get<std::string>()) == choices.end()) {
              return false;
            }
            value = given.get<std::string>();
            return true;
          }};
}

namespace {

// {"input_ids": {"0": "batch", "1": "auto", "2": "static"}}, or the reprs that to_dict writes for auto and static.
bool read_shapes(const json& given, DynamicShapes& shapes) {
  DynamicShapes result;
  if (!given.is_null() && !given.is_object()) {
    return false;
  }
  for (const auto& [input, axes] : given.items()) {
    if (!axes.is_object()) {
      return false;
    }
    for (const auto& [axis, dim] : axes.items()) {
      if (!dim.is_string() || axis.empty() || axis.find_first_not_of("-0123456789") != std::string::npos) {
        return false;
      }
      const std::string text = dim.get<std::string>();
      result[input].insert_or_assign(std::stoll(axis), text == "auto"     ? Dim::Auto()
                                                       : text == "static" ? Dim::Static()
                                                                          : Dim::parse(text));
    }
  }
  shapes = std::move(result);
  return true;
}

}  // namespace

std::vector<ConfigField> DynamoConfig::fields() {
  return {
      bool_field("dynamic", "keep every axis symbolic unless dynamic_shapes says otherwise", dynamic),
      {"dynamic_shapes", "what an axis of an input is, by input name and axis number",
       "an object such as {\"input_ids\": {\"0\": \"batch\", \"1\": \"auto\", \"2\": \"static\"}}, or null",
       [this] { return shapes_as_reprs(dynamic_shapes); },
       [this](const json& given) { return read_shapes(given, dynamic_shapes); }},
      bool_field("prefer_deferred_runtime_asserts_over_guards",
                 "accepted for compatibility; conditions on sizes are always checked when the program runs",
                 prefer_deferred_runtime_asserts_over_guards),
      bool_field("strict", "accepted for compatibility; there is one way of tracing", strict),
  };
}

}  // namespace exporters
