#include "exporters/executorch/report.h"

#include "exporters/executorch/exporter.h"
#include "exporters/graph/dtype.h"
#include "exporters/support/quote.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace exporters::executorch {
namespace {

// ── Inputs and outputs ──

ValueDescription describe_value(const Method& method, int32_t index, const std::string& fallback) {
  const TensorValue* tensor = method.tensor(index);
  if (tensor == nullptr) {
    return {fallback, "constant", {}};
  }
  ValueDescription value{tensor->name.empty() ? fallback : tensor->name, std::string(dtype_name(tensor->dtype)), {}};
  for (const int32_t size : tensor->sizes) {
    value.dims.push_back(tensor->dynamism == ShapeDynamism::kStatic    ? std::to_string(size)
                         : tensor->dynamism == ShapeDynamism::kBounded ? "<=" + std::to_string(size)
                                                                       : "?");
  }
  return value;
}

// The program's own names for axes, where it has them.
void name_axes(std::vector<ValueDescription>& values, const std::vector<ValueDescription>& named) {
  for (ValueDescription& value : values) {
    const auto found =
        std::find_if(named.begin(), named.end(), [&](const ValueDescription& each) { return each.name == value.name; });
    if (found != named.end() && found->dims.size() == value.dims.size()) {
      value.dims = found->dims;
    }
  }
}

// ── Numbers ──

void count_calls(const Method& method, ProgramDescription& description) {
  for (const Instruction& instruction : method.instructions) {
    if (const auto* kernel = std::get_if<KernelCall>(&instruction)) {
      ++description.ops[method.operators[static_cast<size_t>(kernel->op)].str()];
    } else if (const auto* call = std::get_if<DelegateCall>(&instruction)) {
      ++description.ops[method.delegates[static_cast<size_t>(call->delegate)].id];
    }
  }
}

uint64_t total(const std::vector<Bytes>& list) {
  uint64_t bytes = 0;
  for (const Bytes& each : list) {
    bytes += nbytes_of(each);
  }
  return bytes;
}

uint64_t named_bytes(const Program& program) {
  uint64_t bytes = 0;
  for (const NamedData& data : program.named_data) {
    bytes += data.key == kFactsKey ? 0 : nbytes_of(data.bytes);
  }
  return bytes;
}

void add_method_facts(const Method& method, bool is_only, ProgramDescription& description) {
  const std::string prefix = is_only ? "" : method.name + ": ";
  uint64_t memory = 0;
  for (const int64_t size : method.memory_sizes) {
    memory += static_cast<uint64_t>(std::max<int64_t>(size, 0));
  }
  description.facts.emplace_back(prefix + "planned memory", bytes_text(memory));
  description.facts.emplace_back(prefix + "instructions", std::to_string(method.instructions.size()));
  std::map<std::string, int64_t> delegates;
  for (const Delegate& delegate : method.delegates) {
    ++delegates[delegate.id];
  }
  for (const auto& [id, count] : delegates) {
    description.facts.emplace_back(prefix + "delegates " + id, std::to_string(count));
  }
}

void add_delegation(const ProgramFacts& facts, ProgramDescription& description) {
  description.facts.emplace_back("backend", facts.backend);
  description.facts.emplace_back("calls in delegates", std::to_string(facts.delegated_calls));
  for (const OutsideDelegates& each : facts.outside) {
    description.facts.emplace_back("outside: " + each.op, fmt::format("{} ({})", each.count, each.reason));
  }
}

}  // namespace

ProgramDescription describe(const Program& program, const std::string& name) {
  ProgramDescription description;
  const std::optional<ProgramFacts> facts = facts_of(program, name);
  std::string methods;
  for (const Method& method : program.methods) {
    methods += (methods.empty() ? "" : ", ") + method.name;
    if (!name.empty() && method.name != name) {
      continue;
    }
    const bool is_first = method.name == name || (name.empty() && &method == program.methods.data());
    for (size_t i = 0; is_first && i < method.inputs.size(); ++i) {
      description.inputs.push_back(describe_value(method, method.inputs[i], fmt::format("input_{}", i)));
    }
    for (size_t i = 0; is_first && i < method.outputs.size(); ++i) {
      description.outputs.push_back(describe_value(method, method.outputs[i], fmt::format("output_{}", i)));
    }
    count_calls(method, description);
  }
  if (facts) {
    name_axes(description.inputs, facts->inputs);
    name_axes(description.outputs, facts->outputs);
    description.conditions = facts->conditions;
    add_delegation(*facts, description);
  }
  description.facts.emplace_back("methods", methods);
  for (const Method& method : program.methods) {
    if (name.empty() || method.name == name) {
      add_method_facts(method, program.methods.size() == 1 || !name.empty(), description);
    }
  }
  description.facts.emplace_back("constants", bytes_text(total(program.constants)));
  description.facts.emplace_back("data of delegates", bytes_text(named_bytes(program) + total(program.blobs)));
  return description;
}

std::vector<OutsideDelegates> outside_of(const Delegation& delegation) {
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for_each_delegation(delegation, [&](const Delegation& part) {
    for (const Undelegated& each : part.outside) {
      ++counts[{each.node->target(), each.reason}];
    }
  });
  std::vector<OutsideDelegates> result;
  for (const auto& [key, count] : counts) {
    result.push_back({key.first, key.second, count});
  }
  return result;
}

int64_t delegated_calls(const Delegation& delegation) {
  int64_t count = 0;
  for_each_delegation(delegation, [&](const Delegation& part) {
    for (const Partition& each : part.partitions) {
      count += static_cast<int64_t>(each.nodes.size());
    }
  });
  return count;
}

}  // namespace exporters::executorch
