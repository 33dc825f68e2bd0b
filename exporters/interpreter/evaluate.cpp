#include "exporters/interpreter/evaluate.h"

#include "exporters/interpreter/code.h"

namespace exporters {

std::vector<c10::IValue> evaluate(const Node& node, const std::function<c10::IValue(const Value&)>& lookup) {
  Code::Constants constants;
  for (const Value* value : node.inputs()) {
    if (!constants.contains(value)) {
      constants.emplace(value, lookup(*value));
    }
  }
  return Code::run_alone(node, constants);
}

}  // namespace exporters
