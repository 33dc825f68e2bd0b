#include "exporters/interpreter/evaluate.h"

#include "exporters/interpreter/code.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

namespace exporters {

std::vector<c10::IValue> evaluate(const Node& node, const std::function<c10::IValue(const Value&)>& lookup) {
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowAutograd below_autograd;
  Code::Constants constants;
  for (const Value* value : node.inputs()) {
    if (!constants.contains(value)) {
      constants.emplace(value, lookup(*value));
    }
  }
  return Code::run_alone(node, constants);
}

}  // namespace exporters
