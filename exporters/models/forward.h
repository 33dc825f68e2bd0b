#pragma once

#include "exporters/graph/pytree.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exporters::models {

/// The arguments of a forward by name, in the order they were set.
class ForwardArgs {
 public:
  using Item = std::pair<std::string, PyTree>;

  ForwardArgs() = default;
  ForwardArgs(std::initializer_list<Item> items);

  /// Adds the argument, or replaces its value in place.
  void set(std::string_view name, PyTree value);
  /// Null when it was not given.
  const PyTree* find(std::string_view name) const;

  /// The tensor of that name; undefined when it was not given or is None. Throws Error when it is something else.
  at::Tensor tensor(std::string_view name) const;
  /// Throws Error when it is neither a bool nor None.
  bool flag(std::string_view name, bool fallback) const;
  /// Whether the argument was given and is not None.
  bool has(std::string_view name) const;
  /// Throws Error unless exactly one of two arguments was given.
  void require_one_of(std::string_view a, std::string_view b) const;
  /// The argument under one of its two names, or null. Throws Error when it was given under both.
  const PyTree* find_renamed(std::string_view name, std::string_view former_name) const;

  size_t size() const { return items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<Item> items_;
};

/// A tuple of tensors as a value.
PyTree tuple_of(std::vector<at::Tensor> tensors);

/// What a model says of one argument of its forward.
struct ArgumentSpec {
  enum class Kind {
    kIndices,  ///< an int64 or int32 tensor
    kMask,     ///< a tensor of any dtype
    kFloats,   ///< a floating-point tensor
    kFlag,     ///< true or false
    kCount,    ///< an integer, or an int64 or int32 tensor
    kCache,    ///< a cache (cache.h)
    kOutputs,  ///< what another model returned: a ModelOutput, tuple or list that begins with a tensor
    kRefused,  ///< known to the reference but not supported here; None only
  };
  std::string name;
  Kind kind = Kind::kIndices;
  std::vector<int64_t> ranks = {};  ///< numbers of dimensions that are accepted
  int64_t limit = 0;                ///< kIndices: values lie in [0, limit); 0: any value
  std::string note = {};            ///< kIndices: what the limit is; kRefused: why
};

}  // namespace exporters::models
