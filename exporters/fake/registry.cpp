#include "exporters/fake/registry.h"

#include "exporters/fake/families.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
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

  const ShapeFunction* find(const c10::OperatorName& op) const {
    const std::shared_lock lock(mutex_);
    if (!op.overload_name.empty()) {
      if (const auto it = by_name_.find(op.name + "." + op.overload_name); it != by_name_.end()) {
        return it->second;
      }
    }
    const auto it = by_name_.find(op.name);
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

}  // namespace

void register_shape_function(std::string_view op, ShapeFunction function) {
  shape_functions().add(op, std::move(function));
}

const ShapeFunction* find_shape_function(const c10::OperatorName& op) { return shape_functions().find(op); }

std::vector<std::string> shape_function_names() { return shape_functions().names(); }

}  // namespace exporters
