#include "exporters/models/forward.h"

#include "exporters/support/error.h"

namespace exporters::models {

ForwardArgs::ForwardArgs(std::initializer_list<Item> items) {
  for (const Item& item : items) {
    set(item.first, item.second);
  }
}

void ForwardArgs::set(std::string_view name, PyTree value) {
  for (Item& item : items_) {
    if (item.first == name) {
      item.second = std::move(value);
      return;
    }
  }
  items_.emplace_back(std::string(name), std::move(value));
}

const PyTree* ForwardArgs::find(std::string_view name) const {
  for (const Item& item : items_) {
    if (item.first == name) {
      return &item.second;
    }
  }
  return nullptr;
}

at::Tensor ForwardArgs::tensor(std::string_view name) const {
  const PyTree* value = find(name);
  if (value == nullptr || value->is_none()) {
    return {};
  }
  if (!value->is_tensor()) {
    throw Error("expected a tensor", fmt::format("argument \"{}\"", name));
  }
  return value->tensor();
}

bool ForwardArgs::has(std::string_view name) const {
  const PyTree* value = find(name);
  return value != nullptr && !value->is_none();
}

bool ForwardArgs::flag(std::string_view name, bool fallback) const {
  const PyTree* value = find(name);
  if (value == nullptr || value->is_none()) {
    return fallback;
  }
  const bool* flag = value->is_leaf() ? std::get_if<bool>(&value->leaf()) : nullptr;
  if (flag == nullptr) {
    throw Error("expected true or false", fmt::format("argument \"{}\"", name));
  }
  return *flag;
}

}  // namespace exporters::models
