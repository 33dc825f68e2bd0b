// ── Stage 4: Dynamic shapes ──
//
// `dynamic = true` makes every axis of every tensor in the inputs symbolic (Dim::Auto), also of those inside caches and
// other containers; `dynamic = false` makes them static. `dynamic_shapes` overrides single axes:
//
//   - the key is an input or a path below it. A key that is a container stands for each tensor in it: {"cache": {"0":
//     "batch"}} is the batch of every key and value. '*' stands for one part of a path ("cache.layers.*.keys"). Where
//     several keys fit a tensor, the longer one wins, axis by axis;
//   - axes count from the end when they are negative;
//   - an input without axes (null, or {}) is static.
//
// Axes whose size the model's architecture fixes (those with a label that is no name: the heads of a cache) stay static
// unless dynamic_shapes names them.
//
// A named Dim is one size wherever its name occurs. Relations between sizes are derived Dims: 2*batch, length + 1. An
// export in which a named Dim cannot stay so is an error that says what the model needs; Dim::Auto gives way, and the
// export says so.
//
// To extend: the kinds of Dim are in exporters/symbolic/dim.h, their texts in exporters/framework/dynamic_shapes.h.
#include "exporters/dynamo/stages.h"

#include "exporters/framework/dynamic_shapes.h"
#include "exporters/support/error.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"

#include <algorithm>

namespace exporters {
namespace {

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// The key is the path or a container above it.
bool fits(std::string_view key, std::string_view path) {
  const auto wanted = parts_of(key);
  const auto given = parts_of(path);
  return wanted.size() <= given.size() &&
         std::equal(wanted.begin(), wanted.end(), given.begin(),
                    [](std::string_view a, std::string_view b) { return a == "*" || a == b; });
}

// Fewer parts, then more stars, are less specific.
bool less_specific(const std::string& a, const std::string& b) {
  const auto rank = [](const std::string& key) {
    return std::pair(std::count(key.begin(), key.end(), '.'), -std::count(key.begin(), key.end(), '*'));
  };
  return rank(a) < rank(b);
}

struct Leaf {
  std::string path;
  int64_t rank = 0;
};

std::vector<Leaf> tensor_leaves(const NamedInputs& inputs) {
  std::vector<Leaf> leaves;
  for (const auto& [name, value] : inputs) {
    for (const auto& [path, tensor] : value.tensors()) {
      leaves.push_back({path.empty() ? name : name + "." + path, tensor.dim()});
    }
  }
  return leaves;
}

// Axis → Dim with axes counted from the front.
std::map<int64_t, Dim> counted_from_front(const std::string& key, const std::map<int64_t, Dim>& axes,
                                          const Leaf& leaf) {
  std::map<int64_t, Dim> result;
  for (const auto& [axis, dim] : axes) {
    ensure(-leaf.rank <= axis && axis < leaf.rank, "dynamic_shapes names axis {} of {}, but '{}' has {} axes", axis,
           quote(key), leaf.path, leaf.rank);
    const bool is_new = result.emplace(axis < 0 ? axis + leaf.rank : axis, dim).second;
    ensure(is_new, "dynamic_shapes names axis {} of '{}' twice, as {} too", axis, leaf.path,
           axis < 0 ? axis + leaf.rank : axis - leaf.rank);
  }
  return result;
}

std::map<int64_t, Dim> all_static(int64_t rank) {
  std::map<int64_t, Dim> axes;
  for (int64_t axis = 0; axis < rank; ++axis) {
    axes.emplace(axis, Dim::Static());
  }
  return axes;
}

void check_key(const std::string& key, const std::map<int64_t, Dim>& axes, const NamedInputs& inputs,
               const std::vector<Leaf>& leaves) {
  const bool found = std::any_of(leaves.begin(), leaves.end(), [&](const Leaf& leaf) { return fits(key, leaf.path); });
  // An argument without tensors has nothing to make dynamic, as {"return_dict": null} says.
  if (found || (axes.empty() && (find_input(inputs, key) != nullptr || is_output_flag(key)))) {
    return;
  }
  std::vector<std::string> paths;
  std::string known;
  for (const Leaf& leaf : leaves) {
    paths.push_back(leaf.path);
    known += (known.empty() ? "" : ", ") + leaf.path;
  }
  const std::string near = did_you_mean(key, paths);
  throw Error("dynamic_shapes names " + quote(key) + ", which is no tensor input", {},
              near.empty() ? "Inputs are: " + known + "." : near);
}

std::map<int64_t, Dim> axes_of(const Leaf& leaf, const std::vector<std::string>& keys, const DynamicShapes& wanted) {
  std::map<int64_t, Dim> result;
  for (const std::string& key : keys) {
    if (!fits(key, leaf.path)) {
      continue;
    }
    const std::map<int64_t, Dim>& axes = wanted.at(key);
    for (const auto& [axis, dim] : axes.empty() ? all_static(leaf.rank) : counted_from_front(key, axes, leaf)) {
      result.insert_or_assign(axis, dim);
    }
  }
  return result;
}

// The model's architecture has one size for the axis.
bool is_fixed(const AxisLabels& labels, const std::string& path, int64_t axis) {
  const auto axes = labels.find(path);
  if (axes == labels.end()) {
    return false;
  }
  const auto label = axes->second.find(axis);
  return label != axes->second.end() && label->second.name.empty();
}

}  // namespace

DynamicShapes resolve_dynamic_shapes(const NamedInputs& inputs, const DynamoConfig& config, const AxisLabels& labels) {
  check_dims(config.dynamic_shapes);
  const std::vector<Leaf> leaves = tensor_leaves(inputs);
  std::vector<std::string> keys;
  for (const auto& [key, axes] : config.dynamic_shapes) {
    check_key(key, axes, inputs, leaves);
    keys.push_back(key);
  }
  std::stable_sort(keys.begin(), keys.end(), less_specific);
  DynamicShapes resolved;
  for (const Leaf& leaf : leaves) {
    std::map<int64_t, Dim> axes = axes_of(leaf, keys, config.dynamic_shapes);
    for (int64_t axis = 0; axis < leaf.rank; ++axis) {
      axes.emplace(axis, config.dynamic && !is_fixed(labels, leaf.path, axis) ? Dim::Auto() : Dim::Static());
    }
    resolved.emplace(leaf.path, std::move(axes));
  }
  return resolved;
}

}  // namespace exporters
