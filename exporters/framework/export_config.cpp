#include "exporters/framework/export_config.h"

#include "exporters/framework/dynamic_shapes.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
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
  const json before = to_dict();
  try {
    for (const auto& [name, value] : values.items()) {
      if (name == "export_format") {
        ensure(value == export_format(), "this config is for the format '{}', not {}", export_format(), value.dump());
        continue;
      }
      set_field(find_field(known, name, export_format()), value);
    }
    validate();
  } catch (const Error&) {
    for (const ConfigField& field : known) {
      field.set(before.at(field.name));
    }
    throw;
  }
}

std::string ExportConfig::to_json() { return to_dict().dump(2); }

void ExportConfig::from_json(std::string_view text) {
  from_dict(parse_json(text, "the " + export_format() + " config"));
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

namespace {

std::string quoted_list(const std::vector<std::string>& choices) {
  std::string text;
  for (const std::string& choice : choices) {
    text += (text.empty() ? "\"" : ", \"") + choice + "\"";
  }
  return text;
}

bool is_one_of(const std::vector<std::string>& choices, const json& given) {
  return given.is_string() && std::find(choices.begin(), choices.end(), given.get<std::string>()) != choices.end();
}

}  // namespace

ConfigField choice_field(std::string name, std::string help, std::optional<std::string>& value,
                         std::vector<std::string> choices) {
  return {std::move(name), std::move(help), "one of null, " + quoted_list(choices),
          [&value] { return value ? json(*value) : json(nullptr); },
          [&value, choices](const json& given) {
            if (!given.is_null() && !is_one_of(choices, given)) {
              return false;
            }
            value = given.is_null() ? std::nullopt : std::optional(given.get<std::string>());
            return true;
          }};
}

ConfigField choice_field(std::string name, std::string help, std::string& value, std::vector<std::string> choices) {
  return {std::move(name), std::move(help), "one of " + quoted_list(choices), [&value] { return json(value); },
          [&value, choices](const json& given) {
            if (!is_one_of(choices, given)) {
              return false;
            }
            value = given.get<std::string>();
            return true;
          }};
}

std::vector<ConfigField> DynamoConfig::fields() {
  return {
      bool_field("dynamic", "keep every axis symbolic unless dynamic_shapes says otherwise", dynamic),
      {"dynamic_shapes", "what an axis of an input is, by input name and axis number",
       "an object such as {\"input_ids\": {\"0\": \"batch 1:64\", \"1\": \"auto\", \"2\": \"static\"}}, or null",
       [this] { return exporters::to_json(dynamic_shapes); },
       [this](const json& given) {
         if (!given.is_object() && !given.is_null()) {
           return false;
         }
         dynamic_shapes = dynamic_shapes_from_json(given);
         return true;
       }},
      bool_field("prefer_deferred_runtime_asserts_over_guards",
                 "accepted for compatibility; conditions on sizes are always checked when the program runs",
                 prefer_deferred_runtime_asserts_over_guards),
      bool_field("strict", "accepted for compatibility; there is one way of tracing", strict),
  };
}

void DynamoConfig::validate() const { check_dims(dynamic_shapes); }

std::vector<ConfigField> ExecutorchConfig::fields() {
  std::vector<ConfigField> result = DynamoConfig::fields();
  result.push_back(choice_field("backend", "what the program is lowered to", backend, {"xnnpack", "cuda", "mlx"}));
  result.push_back(bool_field("alloc_graph_input", "plan memory for inputs, which are then copied", alloc_graph_input));
  result.push_back(bool_field("alloc_graph_output", "plan memory for outputs", alloc_graph_output));
  result.push_back(bool_field("alloc_mutable_buffers", "plan memory for buffers that change", alloc_mutable_buffers));
  return result;
}

}  // namespace exporters
