#include "exporters/framework/pretrained_source.h"

#include "exporters/framework/call_inputs.h"
#include "exporters/framework/prepare_export.h"
#include "exporters/generation/empty_cache.h"
#include "exporters/support/error.h"
#include "exporters/support/near.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>

namespace exporters {
namespace {

AxisLabels axis_labels(const models::PreTrainedModel& model, bool with_cache) {
  AxisLabels result;
  for (const auto& [input, axes] : model.axis_names(with_cache)) {
    for (const auto& [axis, name] : axes) {
      result[input][axis] = {name.name, name.max};
    }
  }
  return result;
}

IndexLimits index_limits(const models::PreTrainedModel& model) {
  IndexLimits result;
  for (const models::ArgumentSpec& spec : model.arguments()) {
    if (spec.kind == models::ArgumentSpec::Kind::kIndices && spec.limit > 0) {
      result[spec.name] = {spec.limit, spec.note};
    }
  }
  return result;
}

bool has_flag(const models::PreTrainedModel& model, std::string_view name) {
  const std::vector<models::ArgumentSpec> specs = model.arguments();
  return std::any_of(specs.begin(), specs.end(), [name](const models::ArgumentSpec& spec) {
    return spec.name == name && spec.kind == models::ArgumentSpec::Kind::kFlag;
  });
}

Forward forward_of(std::shared_ptr<const models::PreTrainedModel> model, models::ForwardArgs flags) {
  return [model = std::move(model), flags = std::move(flags)](const NamedInputs& inputs) {
    models::ForwardArgs args = flags;
    for (const auto& [name, value] : inputs) {
      args.set(name, value);
    }
    return model->forward(args);
  };
}

// Keys and values are [batch, heads, length, head_dim]; states of recurrent layers are [batch, channels, size].
constexpr int64_t kKeysRank = 4;
constexpr int64_t kStatesRank = 3;
constexpr int64_t kLengthAxis = 2;

using LeavesByName = std::map<std::string, at::Tensor>;

// The sample that a cache of these leaves stands in.
models::SampleSize size_of(const LeavesByName& leaves) {
  models::SampleSize size;
  size.sequence = 1;
  bool found = false;
  for (const auto& [name, tensor] : leaves) {
    if (tensor.dim() == kStatesRank) {
      size.batch = tensor.size(0);
      size.past = 1;
      found = true;
    }
    if (tensor.dim() == kKeysRank) {
      const bool is_encoders = name.find(".cross_attention_cache.") != std::string::npos;
      size.batch = tensor.size(0);
      (is_encoders ? size.source : size.past) = tensor.size(kLengthAxis);
      found = true;
    }
  }
  if (found) {
    return size;
  }
  fail("no part of a cache among the inputs has {} axes, as keys and values have: this one has {}", kKeysRank,
       leaves.begin()->second.dim());
}

models::ForwardArgs sample_with(const models::PreTrainedModel& model, const LeavesByName& parts) {
  try {
    return model.sample_inputs(size_of(parts));
  } catch (const Error& error) {
    throw error.with_context("input '" + parts.begin()->first + "'");
  }
}

// `made` with the given leaves in place of its own; they are taken out of `given`. Nothing if none is one of its.
std::optional<PyTree> filled(const std::string& name, const PyTree& made, LeavesByName& given) {
  const std::vector<std::string> paths = made.spec().leaf_paths();
  std::vector<PyTree::Leaf> leaves = made.flatten();
  std::vector<std::string> missing;
  bool found = false;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const std::string path = name + "." + paths[i];
    const auto part = given.find(path);
    if (part != given.end()) {
      leaves[i] = part->second;
      given.erase(part);
      found = true;
    } else if (const auto* own = std::get_if<at::Tensor>(&leaves[i]); own != nullptr && own->dim() >= kStatesRank) {
      missing.push_back(path);
    }
  }
  if (!found) {
    return std::nullopt;
  }
  ensure(missing.empty(), "parts of the input '{}' are missing: {}", name, quoted_names(missing));
  return PyTree::unflatten(made.spec(), std::move(leaves));
}

[[noreturn]] void refuse_part(const std::string& part, const models::ForwardArgs& made) {
  std::vector<std::string> known;
  for (const auto& [name, value] : made) {
    for (const std::string& path : value.is_leaf() ? std::vector<std::string>() : value.spec().leaf_paths()) {
      known.push_back(name + "." + path);
    }
  }
  const std::string near = did_you_mean(part, known);
  throw Error("input '" + part + "' is no part of any input of this model", {},
              !near.empty()   ? near
              : known.empty() ? "It takes no cache."
                              : "Parts are: " + quoted_names(known) + ".");
}

}  // namespace

NamedInputs with_caches(const models::PreTrainedModel& model, const NamedInputs& inputs) {
  NamedInputs result;
  LeavesByName parts;
  for (const auto& [name, value] : inputs) {
    if (name.find('.') != std::string::npos && value.is_tensor()) {
      parts.emplace(name, value.tensor());
    } else {
      result.emplace_back(name, value);
    }
  }
  if (parts.empty()) {
    return result;
  }
  const models::ForwardArgs made = sample_with(model, parts);
  for (const auto& [name, value] : made) {
    if (value.is_leaf()) {
      continue;
    }
    if (std::optional<PyTree> whole = filled(name, value, parts)) {
      ensure(find_input(result, name) == nullptr, "input '{}' is given whole and in parts", name);
      result.emplace_back(name, *std::move(whole));
    }
  }
  if (!parts.empty()) {
    refuse_part(parts.begin()->first, made);
  }
  return result;
}

ExportSource export_source(std::shared_ptr<const models::PreTrainedModel> model, models::ForwardArgs flags,
                           bool with_cache) {
  ExportSource source;
  source.architecture = model->class_name();
  source.state = traced_state(*model);
  source.axis_labels = axis_labels(*model, with_cache);
  source.index_limits = index_limits(*model);
  source.config_json = model->config().json().dump();
  source.forward = forward_of(model, flags);
  source.with_output_flags = [model = std::move(model), flags = std::move(flags)](const NamedInputs& output_flags) {
    models::ForwardArgs all = flags;
    for (const auto& [name, value] : output_flags) {
      if (has_flag(*model, name)) {
        all.set(name, value);
      }
    }
    return forward_of(model, std::move(all));
  };
  return source;
}

}  // namespace exporters
