#include "exporters/fake/registry.h"

#include "exporters/fake/families.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace exporters {

std::span<std::span<const ShapeEntry> (*const)()> families::all() {
  static constexpr std::array kFamilies = {pointwise, reductions,        matmul,     views,         joins,
                                           indexing,  advanced_indexing, factories,  sorting,       normalization,
                                           attention, convolution,       pooling,    resampling,    recurrent,
                                           spectral,  grouped,           data_sized, data_dependent};
  return kFamilies;
}

namespace {

class ShapeFunctions {
 public:
  ShapeFunctions() {
    for (const auto family : families::all()) {
      for (const ShapeEntry& entry : family()) {
        add(entry.op, entry.function);
      }
    }
  }

  void add(std::string_view op, ShapeFunction function) {
    const std::unique_lock lock(mutex_);
    // Replaced functions stay alive: a trace under way may hold a pointer.
    owned_.push_back(std::make_unique<ShapeFunction>(std::move(function)));
    by_name_.insert_or_assign(std::string(op), owned_.back().get());
  }

  const ShapeFunction* find_overload(const c10::OperatorName& op) const {
    return op.overload_name.empty() ? find(op.name) : find(op.name + "." + op.overload_name);
  }

  const ShapeFunction* find(const std::string& name) const {
    const std::shared_lock lock(mutex_);
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : it->second;
  }

  std::vector<std::string> names() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, function] : by_name_) {
      names.push_back(name);
    }
    return names;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::vector<std::unique_ptr<ShapeFunction>> owned_;
  std::map<std::string, const ShapeFunction*, std::less<>> by_name_;
};

ShapeFunctions& shape_functions() {
  static ShapeFunctions functions;
  return functions;
}

bool is_out(const c10::Argument& argument) {
  return argument.kwarg_only() && argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Whether a call of the out= overload is one of the other with outs behind it.
bool is_functional_form(const c10::FunctionSchema& out, const c10::FunctionSchema& other) {
  std::vector<const c10::Argument*> inputs;
  for (const c10::Argument& argument : out.arguments()) {
    if (!is_out(argument)) {
      inputs.push_back(&argument);
    }
  }
  return std::equal(inputs.begin(), inputs.end(), other.arguments().begin(), other.arguments().end(),
                    [](const c10::Argument* mine, const c10::Argument& theirs) {
                      return mine->name() == theirs.name() && *mine->type() == *theirs.type();
                    });
}

std::optional<c10::OperatorName> functional_overload(const c10::OperatorName& op) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const auto found = dispatcher.findSchema(op);
  if (!found || std::none_of(found->schema().arguments().begin(), found->schema().arguments().end(), is_out)) {
    return std::nullopt;
  }
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto other = name.name == op.name && name != op ? dispatcher.findSchema(name) : std::nullopt;
    if (other && is_functional_form(found->schema(), other->schema())) {
      return name;
    }
  }
  return std::nullopt;
}

}  // namespace

void register_shape_function(std::string_view op, ShapeFunction function) {
  shape_functions().add(op, std::move(function));
}

const ShapeFunction* find_shape_function(const c10::OperatorName& op) {
  const ShapeFunctions& functions = shape_functions();
  if (const ShapeFunction* own = functions.find_overload(op)) {
    return own;
  }
  if (const auto functional = functional_overload(op)) {
    return find_shape_function(*functional);
  }
  return functions.find(op.name);
}

std::vector<std::string> shape_function_names() { return shape_functions().names(); }

}  // namespace exporters
