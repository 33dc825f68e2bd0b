#include "exporters/models/config.h"

#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"

#include <nlohmann/json.hpp>

#include <array>

namespace exporters::models {
namespace {

constexpr JsonLimits kLimits{.max_bytes = 32u << 20};  // label maps included, real configs stay below 1 MB

struct DtypeName {
  std::string_view name;
  c10::ScalarType dtype;
};
constexpr std::array kDtypes{
    DtypeName{"float32", c10::ScalarType::Float},     DtypeName{"float16", c10::ScalarType::Half},
    DtypeName{"bfloat16", c10::ScalarType::BFloat16}, DtypeName{"float64", c10::ScalarType::Double},
    DtypeName{"fp32", c10::ScalarType::Float},        DtypeName{"fp16", c10::ScalarType::Half},
    DtypeName{"bf16", c10::ScalarType::BFloat16},     DtypeName{"fp64", c10::ScalarType::Double},
};

constexpr std::array kCommonRules{
    FieldRule{"quantization_config", "", "quantized weights are"},
    FieldRule{"per_layer_config", "{}", "layers that differ from each other are"},
    FieldRule{"pruned_heads", "{}", "removed attention heads are"},
};

std::string text_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_accepted(const FieldRule& rule, const nlohmann::json& value) {
  const std::string text = text_of(value);
  std::string_view rest = rule.accepted;
  while (!rest.empty()) {
    const size_t cut = rest.find('|');
    if (rest.substr(0, cut) == text) {
      return true;
    }
    rest = cut == std::string_view::npos ? std::string_view() : rest.substr(cut + 1);
  }
  return false;
}

}  // namespace

ModelConfig ModelConfig::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  return ModelConfig(read_json(path, kLimits), path.string());
}

ModelConfig ModelConfig::parse(std::string_view text, std::string where) {
  nlohmann::json json = parse_json(text, where, kLimits);
  return ModelConfig(std::move(json), std::move(where));
}

ModelConfig::ModelConfig(nlohmann::json json, std::string where)
    : json_(std::make_shared<const nlohmann::json>(std::move(json))), where_(std::move(where)) {
  if (!json_->is_object()) {
    throw Error("the config is not a JSON object", where_);
  }
  model_type_ = string("model_type", "");
  if (const auto names = root().find("architectures")) {
    architectures_ = names->as_strings();
  }
}

JsonField ModelConfig::root() const { return JsonField(*json_, where_); }

bool ModelConfig::has(std::string_view name) const { return root().has(name); }

int64_t ModelConfig::size(std::string_view name, int64_t fallback, int64_t min, int64_t max) const {
  const int64_t value = integer(name, fallback);
  if (value < min || value > max) {
    throw Error(fmt::format("config field \"{}\" is {}, expected a number from {} to {}", name, value, min, max),
                where_);
  }
  return value;
}

int64_t ModelConfig::integer(std::string_view name, int64_t fallback) const { return root().get_int(name, fallback); }

std::optional<int64_t> ModelConfig::optional_integer(std::string_view name, std::optional<int64_t> fallback) const {
  if (const auto field = root().find(name)) {
    return field->as_int();
  }
  return json_->contains(name) ? std::nullopt : fallback;
}

double ModelConfig::number(std::string_view name, double fallback) const { return root().get_double(name, fallback); }

std::optional<double> ModelConfig::optional_number(std::string_view name, std::optional<double> fallback) const {
  if (const auto field = root().find(name)) {
    return field->as_double();
  }
  return json_->contains(name) ? std::nullopt : fallback;
}

bool ModelConfig::flag(std::string_view name, bool fallback) const { return root().get_bool(name, fallback); }

std::string ModelConfig::string(std::string_view name, std::string_view fallback) const {
  return root().get_string(name, fallback);
}

int64_t ModelConfig::num_labels(int64_t fallback) const {
  const auto labels = root().find("id2label");
  const int64_t count = size("num_labels", labels ? static_cast<int64_t>(labels->keys().size()) : fallback);
  if (count == 1 && string("problem_type", "") == "single_label_classification") {
    throw Error("config field \"problem_type\" is \"single_label_classification\" with one label", where_,
                "With one label it is \"regression\"; a binary classification has two labels");
  }
  return count;
}

std::map<int64_t, std::string> ModelConfig::id2label() const {
  std::map<int64_t, std::string> result;
  const auto labels = root().find("id2label");
  if (!labels) {
    return result;
  }
  for (const std::string& key : labels->keys()) {
    const bool is_index = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!is_index) {
      labels->fail_here(fmt::format("has the key {}, expected an index", quote(key)));
    }
    result.emplace(std::stoll(key), labels->at(key).as_string());
  }
  return result;
}

std::optional<c10::ScalarType> ModelConfig::dtype() const {
  for (std::string_view name : {"dtype", "torch_dtype"}) {
    if (has(name)) {
      try {
        return parse_dtype(string(name, ""));
      } catch (const Error& error) {
        throw error.with_context(fmt::format("{}, field \"{}\"", where_, name));
      }
    }
  }
  return std::nullopt;
}

void ModelConfig::check(std::span<const FieldRule> family_rules) const {
  for (std::span<const FieldRule> rules : {std::span<const FieldRule>(kCommonRules), family_rules}) {
    for (const FieldRule& rule : rules) {
      const auto field = root().find(rule.name);
      if (field && !is_accepted(rule, field->value())) {
        const std::string whose = model_type_.empty() ? "" : " for model type " + quote(model_type_);
        throw Error(fmt::format("config field \"{}\" is {}: {} not supported{}", rule.name,
                                quote(text_of(field->value())), rule.reason, whose),
                    where_);
      }
    }
  }
}

c10::ScalarType parse_dtype(std::string_view name) {
  std::string_view bare = name;
  if (bare.starts_with("torch.")) {
    bare.remove_prefix(6);
  }
  std::vector<std::string_view> known;
  for (const DtypeName& entry : kDtypes) {
    if (entry.name == bare) {
      return entry.dtype;
    }
    known.push_back(entry.name);
  }
  throw Error(fmt::format("unknown dtype \"{}\"", name), {}, suggest(name, known));
}

}  // namespace exporters::models
