#pragma once

#include "exporters/framework/exporter.h"
#include "exporters/framework/pytree_nodes.h"
#include "exporters/trace/torch_module.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace exporters {

/// A libtorch module as something to export, with a forward that takes the inputs by name. The forward has to keep the
/// module alive. Throws Error when the module is in training mode.
ExportSource export_source(const torch::nn::Module& module, std::function<PyTree(const NamedInputs&)> forward,
                           AxisLabels axis_labels = {});

namespace detail {

// ── A forward's arguments and results, to and from nested values ──

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;

[[noreturn]] void fail_argument(const std::string& name, const char* expected);

template <typename T>
T argument_from(const std::string& name, const PyTree& value) {
  if constexpr (std::is_same_v<T, PyTree>) {
    return value;
  } else if constexpr (is_optional<T>) {
    return value.is_none() ? T() : T(argument_from<typename T::value_type>(name, value));
  } else if constexpr (std::is_same_v<T, at::Tensor>) {
    if (!value.is_tensor()) {
      fail_argument(name, "a tensor");
    }
    return value.tensor();
  } else if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string>) {
    return from_pytree<T>(value);
  } else {
    static_assert(std::is_same_v<T, bool> || std::is_same_v<T, int64_t> || std::is_same_v<T, double> ||
                      std::is_same_v<T, std::string>,
                  "arguments are tensors, bool, int64_t, double, std::string, optionals of them, PyTree, or classes "
                  "that are registered with register_pytree_node");
    if (!value.is_leaf() || !std::holds_alternative<T>(value.leaf())) {
      fail_argument(name, std::is_same_v<T, bool>      ? "a bool"
                          : std::is_same_v<T, int64_t> ? "an integer"
                          : std::is_same_v<T, double>  ? "a floating-point number"
                                                       : "a string");
    }
    return std::get<T>(value.leaf());
  }
}

template <typename T>
PyTree result_of(const T& value) {
  return to_pytree(value);
}
inline PyTree result_of(PyTree value) { return value; }
inline PyTree result_of(at::Tensor value) { return PyTree(std::move(value)); }
inline PyTree result_of(const std::vector<at::Tensor>& values) {
  return PyTree::list(std::vector<PyTree>(values.begin(), values.end()));
}
template <typename... Ts>
PyTree result_of(const std::tuple<Ts...>& values) {
  return std::apply([](const auto&... each) { return PyTree::tuple({result_of(each)...}); }, values);
}

void check_argument_count(const NamedInputs& inputs, size_t expected);

}  // namespace detail

/// A libtorch module as something to export: `export_source(encoder.ptr(), &EncoderImpl::forward)`. The forward is
/// called with the sample inputs in their order. It takes tensors, numbers, strings, optionals of these (None for a
/// missing one), PyTree, and classes that are registered with register_pytree_node; it returns a tensor, a vector or
/// tuple of tensors, a PyTree, or a registered class.
/// Throws Error when the module is in training mode.
template <typename Module, typename Class, typename Result, typename... Args>
ExportSource export_source(std::shared_ptr<Module> module, Result (Class::*forward)(Args...),
                           AxisLabels axis_labels = {}) {
  const Module& traced = *module;
  return export_source(
      traced,
      [module = std::move(module), forward](const NamedInputs& inputs) {
        detail::check_argument_count(inputs, sizeof...(Args));
        return [&]<size_t... I>(std::index_sequence<I...>) {
          return detail::result_of(
              ((*module).*forward)(detail::argument_from<std::decay_t<Args>>(inputs[I].first, inputs[I].second)...));
        }
        (std::index_sequence_for<Args...>());
      },
      std::move(axis_labels));
}

}  // namespace exporters
