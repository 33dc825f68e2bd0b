#include "exporters/models/module.h"

#include "exporters/support/error.h"

#include <c10/core/SymBool.h>

#include <algorithm>

namespace exporters::models {

Module::Module(Scope scope, std::string class_name)
    : parent_(scope.parent), name_(std::move(scope.name)), class_name_(std::move(class_name)) {
  if (scope.parent != nullptr) {
    scope.parent->children_.push_back(this);
  }
}

void Module::parameter(std::string name, at::Tensor& tensor, std::vector<int64_t> shape,
                       std::function<at::Tensor()> make) {
  slots_.push_back({std::move(name), Slot::Kind::kParameter, std::move(shape), &tensor, std::move(make)});
}

void Module::buffer(std::string name, at::Tensor& tensor, std::function<at::Tensor()> make, bool in_model_dtype) {
  slots_.push_back(
      {std::move(name), Slot::Kind::kBuffer, {}, &tensor, std::move(make), /*stored=*/false, in_model_dtype});
}

void Module::stored_buffer(std::string name, at::Tensor& tensor, std::vector<int64_t> shape,
                           std::function<at::Tensor()> make) {
  slots_.push_back({std::move(name), Slot::Kind::kBuffer, std::move(shape), &tensor, std::move(make)});
}

const Module* Module::find_child(std::string_view name) const {
  const auto found =
      std::find_if(children_.begin(), children_.end(), [name](const Module* child) { return child->name_ == name; });
  return found == children_.end() ? nullptr : *found;
}

void Module::for_each_slot(const std::function<void(const std::string&, const Slot&)>& visit) const {
  visit_slots("", visit);
}

void Module::visit_slots(const std::string& prefix,
                         const std::function<void(const std::string&, const Slot&)>& visit) const {
  for (const Slot& slot : slots_) {
    visit(prefix + slot.name, slot);
  }
  for (const Module* child : children_) {
    child->visit_slots(prefix + child->name_ + ".", visit);
  }
}

void require(const c10::SymBool& condition, const std::function<std::string()>& message) {
  if (!condition.expect_true(__FILE__, __LINE__)) {
    throw Error(message(), current_place().str());
  }
}

}  // namespace exporters::models
