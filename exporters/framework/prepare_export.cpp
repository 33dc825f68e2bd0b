#include "exporters/framework/prepare_export.h"

#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <ATen/core/grad_mode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <mutex>

namespace exporters {
namespace {

constexpr std::array<std::string_view, 2> kLabels = {"labels", "future_values"};
constexpr std::array<std::string_view, 5> kOutputFlags = {"use_cache", "output_attentions", "output_hidden_states",
                                                          "return_dict", "return_loss"};

bool is_label(std::string_view name) { return std::find(kLabels.begin(), kLabels.end(), name) != kLabels.end(); }

struct Preparer {
  std::vector<std::string> markers;
  InputPreparer prepare;
  std::string reason;
};

struct Preparers {
  std::mutex mutex;
  std::vector<Preparer> all;
};

Preparers& preparers() {
  static Preparers instance;
  return instance;
}

[[noreturn]] void refuse_loss(const std::string& what, std::string hint) {
  throw Error(what + ": an export computes no loss", {}, std::move(hint));
}

// ── Labels and flags ──

void refuse_labels(const NamedInputs& inputs) {
  for (const auto& [name, value] : inputs) {
    if (is_label(name) && !value.is_none()) {
      refuse_loss("'" + name + "' is among the inputs",
                  "Leave it out, and compute the loss from the program's outputs.");
    }
  }
}

void refuse_return_loss(const ExportSource& model, const NamedInputs& inputs) {
  if (!model.config_json.empty()) {
    const nlohmann::json config = nlohmann::json::parse(model.config_json, nullptr, /*allow_exceptions=*/false);
    if (config.is_object() && config.value("return_loss", nlohmann::json()) == true) {
      refuse_loss("the model's config has return_loss = true", "Set it to false in the config.");
    }
  }
  const PyTree* asked = find_input(inputs, "return_loss");
  const bool* value = asked != nullptr && asked->is_leaf() ? std::get_if<bool>(&asked->leaf()) : nullptr;
  if (asked != nullptr && !asked->is_none() && (value == nullptr || *value)) {
    refuse_loss("'return_loss' is among the inputs", "Leave it out or set it to false.");
  }
}

// ── Preparers ──

void run_preparers(const ExportSource& model, NamedInputs& inputs) {
  std::vector<Preparer> all;
  {
    const std::lock_guard lock(preparers().mutex);
    all = preparers().all;
  }
  const at::NoGradGuard no_grad;
  for (const Preparer& preparer : all) {
    const bool fits = std::all_of(preparer.markers.begin(), preparer.markers.end(), [&](const std::string& marker) {
      const PyTree* value = find_input(inputs, marker);
      return value != nullptr && !value->is_none();
    });
    if (fits) {
      try {
        preparer.prepare(model, inputs);
      } catch (const Error& error) {
        throw error.with_context("preparing the input '" + preparer.markers.front() + "'");
      }
    }
  }
}

// ── Casts ──

PyTree cast(const PyTree& value, c10::ScalarType dtype) {
  std::vector<PyTree::Leaf> leaves = value.flatten();
  for (PyTree::Leaf& leaf : leaves) {
    auto* tensor = std::get_if<at::Tensor>(&leaf);
    if (tensor != nullptr && tensor->is_floating_point() && tensor->scalar_type() != dtype) {
      leaf = tensor->to(dtype);
    }
  }
  return PyTree::unflatten(value.spec(), std::move(leaves));
}

}  // namespace

PreparedInputs prepare_for_export(const ExportSource& model, const NamedInputs& sample_inputs) {
  refuse_labels(sample_inputs);
  PreparedInputs prepared;
  for (const auto& [name, value] : sample_inputs) {
    // A module without a config has no flags: an argument of that name is one like any other.
    if (model.with_output_flags && is_output_flag(name)) {
      ensure(value.is_leaf() && !value.is_tensor(), "the output flag '{}' is true, false or None", name);
      prepared.output_flags.emplace_back(name, value);
    } else if (!is_label(name)) {
      prepared.inputs.emplace_back(name, value);
    }
  }
  refuse_return_loss(model, sample_inputs);
  run_preparers(model, prepared.inputs);
  if (const auto dtype = model_dtype(model)) {
    for (auto& [name, value] : prepared.inputs) {
      value = cast(value, *dtype);
    }
  }
  return prepared;
}

bool is_output_flag(std::string_view name) {
  return std::find(kOutputFlags.begin(), kOutputFlags.end(), name) != kOutputFlags.end();
}

void register_export_input_preparer(std::vector<std::string> markers, InputPreparer prepare, std::string reason) {
  ensure(!markers.empty(), "an input preparer needs the names of the inputs that it is for");
  ensure(prepare != nullptr, "the input preparer for '{}' is no function", markers.front());
  std::sort(markers.begin(), markers.end());
  const std::lock_guard lock(preparers().mutex);
  for (Preparer& known : preparers().all) {
    if (known.markers == markers) {
      known = {std::move(markers), std::move(prepare), std::move(reason)};
      return;
    }
  }
  preparers().all.push_back({std::move(markers), std::move(prepare), std::move(reason)});
}

std::vector<InputPreparerInfo> export_input_preparers() {
  const std::lock_guard lock(preparers().mutex);
  std::vector<InputPreparerInfo> infos;
  for (const Preparer& preparer : preparers().all) {
    infos.push_back({preparer.markers, preparer.reason});
  }
  return infos;
}

const PyTree* find_input(const NamedInputs& inputs, std::string_view name) {
  for (const auto& [each, value] : inputs) {
    if (each == name) {
      return &value;
    }
  }
  return nullptr;
}

void set_input(NamedInputs& inputs, std::string_view name, PyTree value) {
  for (auto& [each, slot] : inputs) {
    if (each == name) {
      slot = std::move(value);
      return;
    }
  }
  inputs.emplace_back(std::string(name), std::move(value));
}

std::optional<c10::ScalarType> model_dtype(const ExportSource& model) {
  for (const TracedState& state : model.state) {
    if (!state.is_buffer && c10::isFloatingType(state.tensor.scalar_type())) {
      return state.tensor.scalar_type();
    }
  }
  return std::nullopt;
}

}  // namespace exporters
