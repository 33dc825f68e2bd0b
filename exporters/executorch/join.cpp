#include "exporters/executorch/join.h"

#include "exporters/executorch/program_facts.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <map>

namespace exporters::executorch {
namespace {

Method moved_method(const MethodPart& part, Program& joined) {
  ensure(part.program->methods.size() == 1, "the program of {} has {} methods where one was expected", quote(part.name),
         part.program->methods.size());
  Method method = part.program->methods.front();
  method.name = part.name;
  for (EValue& value : method.values) {
    auto* tensor = std::get_if<TensorValue>(&value);
    if (tensor != nullptr && tensor->constant) {
      tensor->constant = joined.add_constant(part.program->constants.at(*tensor->constant));
    }
  }
  for (Delegate& delegate : method.delegates) {
    delegate.blob = joined.add_blob(part.program->blobs.at(delegate.blob));
  }
  return method;
}

void add_data(const MethodPart& part, Program& joined) {
  for (NamedData data : part.program->named_data) {
    if (data.key == kFactsKey) {
      data.key = facts_key(part.name);
    }
    joined.add_named_data(std::move(data));
  }
}

// A method that only reads a buffer has it as a constant: it would not see what another method writes.
void refuse_stale_constants(const Program& joined, std::span<const MethodMemory> memory) {
  std::map<size_t, std::string> written;  // start values
  for (size_t m = 0; m < memory.size(); ++m) {
    for (const auto& [value, name] : memory[m].state) {
      if (const auto& start = joined.methods[m].tensor(value)->constant) {
        written.emplace(*start, name);
      }
    }
  }
  for (size_t m = 0; m < memory.size(); ++m) {
    for (size_t i = 0; i < joined.methods[m].values.size(); ++i) {
      const auto value = static_cast<int32_t>(i);
      const TensorValue* tensor = joined.methods[m].tensor(value);
      if (tensor == nullptr || !tensor->constant || memory[m].state.contains(value)) {
        continue;
      }
      const auto stale = written.find(*tensor->constant);
      ensure(stale == written.end(), "method {} reads {} as a constant, and another method writes to it",
             quote(joined.methods[m].name), stale == written.end() ? "" : quote(stale->second));
    }
  }
}

}  // namespace

Program join_programs(std::span<const MethodPart> parts) {
  Program joined;
  std::vector<MethodMemory> memory;
  for (const MethodPart& part : parts) {
    joined.methods.push_back(moved_method(part, joined));
    add_data(part, joined);
    memory.push_back(part.memory);
  }
  refuse_stale_constants(joined, memory);
  plan_memory(joined, memory);
  return joined;
}

}  // namespace exporters::executorch
