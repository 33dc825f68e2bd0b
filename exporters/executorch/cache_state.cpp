#include "exporters/executorch/cache_state.h"

#include "exporters/framework/prepare_export.h"
#include "exporters/support/error.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace exporters::executorch {
namespace {

constexpr std::string_view kCache = "cache";
constexpr std::string_view kStaticCache = "transformers.cache_utils:StaticCache";

using Buffers = std::map<std::string, at::Tensor>;  // by the cache's leaf: "layers.0.keys"

ComponentExport& component_named(std::vector<ComponentExport>& components, std::string_view name) {
  const auto found = std::find_if(components.begin(), components.end(),
                                  [&](const ComponentExport& each) { return each.name == name; });
  if (found == components.end()) {
    throw Error("a program that keeps the cache itself needs the component '" + std::string(name) + "'", "keeps_cache",
                "Export for generation (hfx export --generation), and not --merged: prefill empties the cache.");
  }
  return *found;
}

const PyTree& static_cache(const ComponentExport& component) {
  const PyTree* cache = find_input(component.sample_inputs, kCache);
  if (cache == nullptr || cache->type() != kStaticCache) {
    throw Error("a program keeps a cache of a fixed length only", "component '" + component.name + "'",
                "Ask for one: --set cache_implementation=static --set max_cache_len=N.");
  }
  return *cache;
}

at::Tensor zeros_like(const at::Tensor& sample, std::optional<c10::ScalarType> dtype) {
  const bool is_floating = c10::isFloatingType(sample.scalar_type());
  return at::zeros(sample.sizes(), is_floating && dtype ? *dtype : sample.scalar_type());
}

template <typename Make>
PyTree with_leaves(const PyTree& tree, const Make& make) {
  std::vector<PyTree::Leaf> leaves = tree.flatten();
  const std::vector<std::string> paths = tree.spec().leaf_paths();
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (const auto* tensor = std::get_if<at::Tensor>(&leaves[i])) {
      leaves[i] = make(paths[i], *tensor);
    }
  }
  return PyTree::unflatten(tree.spec(), std::move(leaves));
}

Buffers buffers_of(const PyTree& cache, std::optional<c10::ScalarType> dtype) {
  Buffers buffers;
  for (const auto& [path, tensor] : cache.tensors()) {
    buffers.emplace(path, zeros_like(tensor, dtype));
  }
  return buffers;
}

PyTree without_cache(const PyTree& output) {
  const std::vector<std::string> names = output.spec().keys();
  std::vector<std::pair<std::string, PyTree>> fields;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != kCache) {
      fields.emplace_back(names[i], output.children()[i]);
    }
  }
  return PyTree::object(output.type(), std::move(fields));
}

// ── Forwards ──

using Wrap = std::function<Forward(Forward)>;

// A new cache, whose content then goes to the buffers.
Forward prefill_forward(const Forward& forward, const PyTree& sample, const Buffers& buffers) {
  return [=](const NamedInputs& inputs) {
    NamedInputs all = inputs;
    all.emplace_back(kCache, with_leaves(sample, [](const std::string&, const at::Tensor& leaf) {
                       return at::zeros(leaf.sizes(), leaf.options());
                     }));
    const PyTree output = forward(all);
    for (const auto& [path, tensor] : output.at(kCache).tensors()) {
      const auto buffer = buffers.find(path);
      ensure(buffer != buffers.end(), "'{}' of the cache that prefill returns is none that decode takes", path);
      buffer->second.copy_(tensor);
    }
    return without_cache(output);
  };
}

// The buffers themselves, which the forward writes in place.
Forward decode_forward(const Forward& forward, const PyTree& sample, const Buffers& buffers) {
  const PyTree cache =
      with_leaves(sample, [&](const std::string& path, const at::Tensor&) { return buffers.at(path); });
  return [=](const NamedInputs& inputs) {
    NamedInputs all = inputs;
    all.emplace_back(kCache, cache);
    return without_cache(forward(all));
  };
}

void change(ComponentExport& component, const Buffers& buffers, const Wrap& wrap) {
  ExportSource& source = component.source;
  for (const auto& [path, tensor] : buffers) {
    source.state.push_back({std::string(kCache) + "." + path, tensor, /*is_buffer=*/true});
  }
  source.forward = wrap(source.forward);
  if (source.with_output_flags) {
    source.with_output_flags = [wrap, flagged = source.with_output_flags](const NamedInputs& flags) {
      return wrap(flagged(flags));
    };
  }
  std::erase_if(component.sample_inputs, [](const auto& input) { return input.first == kCache; });
}

}  // namespace

void keep_cache_in_program(std::vector<ComponentExport>& components) {
  ComponentExport& prefill = component_named(components, "prefill");
  ComponentExport& decode = component_named(components, "decode");
  const PyTree empty = static_cache(prefill);
  const PyTree filled = static_cache(decode);
  const Buffers buffers = buffers_of(filled, model_dtype(decode.source));
  change(prefill, buffers, [=](const Forward& forward) { return prefill_forward(forward, empty, buffers); });
  change(decode, buffers, [=](const Forward& forward) { return decode_forward(forward, filled, buffers); });
}

void fix_batch(AxisLabels& labels, const DynamoConfig& config) {
  const auto is_asked_for = [&](const std::string& leaf, int64_t axis) {
    const auto asked = config.dynamic_shapes.find(leaf);
    if (asked == config.dynamic_shapes.end()) {
      return false;
    }
    const auto dim = asked->second.find(axis);
    return dim != asked->second.end() && dim->second.kind() != Dim::Kind::kStatic;
  };
  for (auto& [leaf, axes] : labels) {
    for (auto& [axis, label] : axes) {
      if (label.name != "batch") {
        continue;
      }
      if (is_asked_for(leaf, axis)) {
        throw Error("the batch of '" + leaf + "' is asked to be dynamic, and the cache in the program has one batch",
                    "keeps_cache", "Give a --sample of the batch that the program is to serve.");
      }
      label = {};  // without a name the axis is fixed
    }
  }
}

}  // namespace exporters::executorch
