#include "exporters/trace/torch_module.h"

#include "exporters/support/error.h"

#include <torch/nn/module.h>

namespace exporters {
namespace {

std::string last_component(const std::string& qualified) {
  const size_t colon = qualified.rfind(':');
  return colon == std::string::npos ? qualified : qualified.substr(colon + 1);
}

void refuse_training_mode(const torch::nn::Module& module) {
  for (const auto& item : module.named_modules()) {
    if (item.value()->is_training()) {
      throw Error("the module is in training mode: dropout would stay random and batch statistics would be the batch's",
                  item.key().empty() ? item.value()->name() : item.key(), "Call module.eval() before the export.");
    }
  }
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
