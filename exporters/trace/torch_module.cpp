#include "exporters/trace/torch_module.h"

#include "exporters/support/error.h"

#include <torch/nn/module.h>

#include <algorithm>

namespace exporters {
namespace {

std::string last_component(const std::string& qualified) {
  const size_t colon = qualified.rfind(':');
  return colon == std::string::npos ? qualified : qualified.substr(colon + 1);
}

// The modules that compute something: those without children, or all where a parent alone is in training mode.
std::vector<std::string> in_training_mode(const torch::nn::Module& module) {
  std::vector<std::string> leaves;
  std::vector<std::string> parents;
  for (const auto& item : module.named_modules()) {
    if (item.value()->is_training()) {
      const std::string type = last_component(item.value()->name());
      const std::string text = item.key().empty() ? type : "'" + item.key() + "' (" + type + ")";
      (item.value()->children().empty() ? leaves : parents).push_back(text);
    }
  }
  return leaves.empty() ? parents : leaves;
}

void refuse_training_mode(const torch::nn::Module& module) {
  constexpr size_t kShown = 4;
  const std::vector<std::string> found = in_training_mode(module);
  if (found.empty()) {
    return;
  }
  std::string names;
  for (size_t i = 0; i < std::min(found.size(), kShown); ++i) {
    names += (i == 0 ? "" : ", ") + found[i];
  }
  if (found.size() > kShown) {
    names += " and " + std::to_string(found.size() - kShown) + " more";
  }
  throw Error(
      "in training mode: " + names + ". Dropout would stay random, and normalization would use the batch's statistics",
      last_component(module.name()), "Call module.eval() before the export.");
}

}  // namespace

TraceRequest request_for(const torch::nn::Module& module) {
  refuse_training_mode(module);
  TraceRequest request;
  request.module_class = last_component(module.name());
  for (const auto& item : module.named_parameters()) {
    request.state.push_back({item.key(), item.value(), false, true, {}});
  }
  for (const auto& item : module.named_buffers()) {
    request.state.push_back({item.key(), item.value(), true, true, {}});
  }
  return request;
}

}  // namespace exporters
