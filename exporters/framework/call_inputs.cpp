#include "exporters/framework/call_inputs.h"

#include "exporters/graph/leaf_argument.h"
#include "exporters/graph/print.h"
#include "exporters/interpreter/call_arguments.h"
#include "exporters/support/error.h"
#include "exporters/support/log.h"

namespace exporters {
namespace {

const PyTree::Leaf* traced_constant(const ExportMetadata& metadata, const std::string& name) {
  for (const auto& [each, value] : metadata.in_constants) {
    if (each == name) {
      return &value;
    }
  }
  return nullptr;
}

}  // namespace

NamedInputs traced_inputs(const ExportMetadata& metadata, const NamedInputs& inputs) {
  NamedInputs taken;
  std::vector<std::string> dropped;
  for (const auto& [name, value] : inputs) {
    if (!metadata.takes(name)) {
      dropped.push_back(name);
    } else if (!value.is_none()) {
      if (const PyTree::Leaf* constant = traced_constant(metadata, name)) {
        ensure(value.is_leaf(), "the program was exported with {} = {}, and is called with a container", name,
               to_text(constant_argument(*constant)));
        check_constant(name, value.leaf(), constant_argument(*constant));
      } else {
        taken.emplace_back(name, value);
      }
    }
  }
  if (!dropped.empty()) {
    warn_once("inputs that the model was not exported with are ignored: " + quoted_names(dropped));
  }
  return taken;
}

void check_constant(const std::string& path, const PyTree::Leaf& given, const Argument& traced) {
  if (!is_same_constant(given, traced)) {
    const std::string text = std::holds_alternative<at::Tensor>(given) ? "a tensor" : to_text(constant_argument(given));
    throw Error("the program was exported with " + path + " = " + to_text(traced) + ", and is called with " + text,
                "input '" + path + "'", "Leave it out, or export again with the value or tensor.");
  }
}

LeavesByPath::LeavesByPath(const NamedInputs& inputs) {
  for (const auto& [name, value] : inputs) {
    const std::vector<std::string> paths = value.spec().leaf_paths();
    std::vector<PyTree::Leaf> leaves = value.flatten();
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!std::holds_alternative<std::monostate>(leaves[i])) {
        leaves_.emplace(paths[i].empty() ? name : name + "." + paths[i], std::move(leaves[i]));
      }
    }
  }
}

std::optional<PyTree::Leaf> LeavesByPath::take(const std::string& path) {
  const auto found = leaves_.find(path);
  if (found == leaves_.end()) {
    return std::nullopt;
  }
  PyTree::Leaf leaf = std::move(found->second);
  leaves_.erase(found);
  return leaf;
}

at::Tensor LeavesByPath::take_tensor(const std::string& path) {
  const std::optional<PyTree::Leaf> leaf = take(path);
  if (!leaf) {
    missing_.push_back(path);
    return {};
  }
  const auto* tensor = std::get_if<at::Tensor>(&*leaf);
  ensure(tensor != nullptr, "input '{}' has to be a tensor, it is {}", path, to_text(constant_argument(*leaf)));
  return *tensor;
}

void LeavesByPath::check() const {
  if (!missing_.empty()) {
    throw Error("inputs are missing: " + quoted_names(missing_));
  }
  std::vector<std::string> surplus;
  for (const auto& [path, leaf] : leaves_) {
    if (std::holds_alternative<at::Tensor>(leaf) && path.find('.') != std::string::npos) {
      surplus.push_back(path);
    }
  }
  if (!surplus.empty()) {
    throw Error("the program was not traced with these parts of its inputs: " + quoted_names(surplus), {},
                "Call it with containers of the traced structure: as many layers, the same fields.");
  }
}

std::string quoted_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "'" : ", '") + name + "'";
  }
  return text;
}

}  // namespace exporters
