#pragma once

#include "exporters/support/place.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace exporters::models {

class Module;

/// Where a new module hangs: below `parent` by `name`, which may have dots ("layer.0"). A root has neither.
struct Scope {
  Module* parent = nullptr;
  std::string name;
};

/// A tensor that a module declares. Parameters and persistent buffers come from the checkpoint; other buffers are made
/// from the config.
struct Slot {
  enum class Kind { kParameter, kBuffer };
  std::string name;  ///< within its module: "weight"
  Kind kind = Kind::kParameter;
  std::vector<int64_t> shape;
  at::Tensor* tensor = nullptr;
  /// Of a tensor that checkpoints need not hold: its value then.
  std::function<at::Tensor()> make = {};
  bool stored = true;  ///< checkpoints may hold it
  /// A made tensor is rounded to the model's dtype; checkpoints' always are.
  bool in_model_dtype = true;

  bool is_buffer() const { return kind == Kind::kBuffer; }
  bool persistent() const { return stored; }
};

/// A layer or a model: named tensors and submodules, named as in the checkpoint.
///
/// A module is a class whose members are its submodules, each constructed with `child("name")`, and whose forward is a
/// typed `operator()` that begins with `const auto scope = enter();`. Declaring a tensor reserves nothing: the loader
/// fills it in. Modules are neither copied nor moved, since their parents point to them.
class Module {
 public:
  Module(Scope scope, std::string class_name);
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& name() const { return name_; }              ///< within its parent
  const Module* parent() const { return parent_; }               ///< null for a root
  const std::string& class_name() const { return class_name_; }  ///< the reference's: "BertSelfAttention"
  /// The submodule that was declared by that name; null if there is none.
  const Module* find_child(std::string_view name) const;

  /// Calls `visit(full name, slot)` for each tensor, in the order of the reference's state_dict: a module's own ones,
  /// then those of its submodules.
  void for_each_slot(const std::function<void(const std::string&, const Slot&)>& visit) const;

 protected:
  Scope child(std::string name) { return {this, std::move(name)}; }
  /// @param make the value where the checkpoint has none; without it, that is an error
  void parameter(std::string name, at::Tensor& tensor, std::vector<int64_t> shape,
                 std::function<at::Tensor()> make = {});
  /// A buffer that no checkpoint holds; `make` is called after the checkpoint has been checked.
  /// @param in_model_dtype whether its value is rounded to the model's dtype
  void buffer(std::string name, at::Tensor& tensor, std::function<at::Tensor()> make, bool in_model_dtype = false);
  /// A buffer that checkpoints hold; `make` gives its value where one does not.
  void stored_buffer(std::string name, at::Tensor& tensor, std::vector<int64_t> shape,
                     std::function<at::Tensor()> make);

  /// Enters this module: for the lifetime of the result, traced nodes and errors carry its path and class.
  [[nodiscard]] ModuleScope enter(SourceLocation location = SourceLocation::current()) const {
    return ModuleScope(name_, class_name_, location);
  }

 private:
  void visit_slots(const std::string& prefix, const std::function<void(const std::string&, const Slot&)>& visit) const;

  const Module* parent_;
  std::string name_;
  std::string class_name_;
  std::vector<Slot> slots_;
  std::vector<const Module*> children_;
};

/// Submodules that are called in turn; a deque, since it never moves its elements.
template <typename T>
using ModuleList = std::deque<T>;

/// A fact about sizes that the model relies on: in a trace it becomes a guard; with plain numbers it is checked at
/// once. Throws Error(message).
void require(const c10::SymBool& condition, const std::function<std::string()>& message);

}  // namespace exporters::models
