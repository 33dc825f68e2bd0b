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

void ForwardArgs::require_one_of(std::string_view a, std::string_view b) const {
  if (has(a) == has(b)) {
    throw Error(
        has(a) ? fmt::format("both {} and {} are given", a, b) : fmt::format("neither {} nor {} is given", a, b), {},
        "Give exactly one of them");
  }
}

const PyTree* ForwardArgs::find_renamed(std::string_view name, std::string_view former_name) const {
  if (has(name) && has(former_name)) {
    throw Error(fmt::format("both {} and {} are given", name, former_name), {},
                fmt::format("They are two names of one argument: give {}", name));
  }
  const std::string_view given = has(former_name) ? former_name : name;
  return has(given) ? find(given) : nullptr;
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

PyTree tuple_of(std::vector<at::Tensor> tensors) {
  return PyTree::tuple({std::make_move_iterator(tensors.begin()), std::make_move_iterator(tensors.end())});
}

}  // namespace exporters::models
