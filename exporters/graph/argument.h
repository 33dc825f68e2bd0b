#pragma once

#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>
#include <c10/util/complex.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace exporters {

class Graph;
class Value;

/// A subgraph argument of a higher-order op (cond, while_loop), with the name it has in the module.
struct GraphArgument {
  std::string name;
  std::shared_ptr<Graph> graph;
};

/// One argument of a node: nothing, another node's value, a constant, or a list of arguments. The kinds are those of
/// torch.export's schema; which of them an argument position takes, its op's schema says.
class Argument {
 public:
  using List = std::vector<Argument>;

  Argument() = default;
  Argument(Value* value) : data_(value) {}                    // NOLINT(google-explicit-constructor)
  Argument(int64_t value) : data_(value) {}                   // NOLINT
  Argument(int value) : data_(int64_t{value}) {}              // NOLINT
  Argument(double value) : data_(value) {}                    // NOLINT
  Argument(bool value) : data_(value) {}                      // NOLINT
  Argument(const char* value) : data_(std::string(value)) {}  // NOLINT
  Argument(std::string value) : data_(std::move(value)) {}    // NOLINT
  Argument(c10::complex<double> value) : data_(value) {}      // NOLINT
  Argument(c10::ScalarType value) : data_(value) {}           // NOLINT
  Argument(c10::Device value) : data_(value) {}               // NOLINT
  Argument(c10::Layout value) : data_(value) {}               // NOLINT
  Argument(c10::MemoryFormat value) : data_(value) {}         // NOLINT
  Argument(GraphArgument value) : data_(std::move(value)) {}  // NOLINT
  Argument(List value) : data_(std::move(value)) {}           // NOLINT

  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  template <typename T>
  const T& as() const {
    return std::get<T>(data_);
  }
  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&data_);
  }

  bool is_none() const { return is<std::monostate>(); }
  bool is_value() const { return is<Value*>(); }
  bool is_list() const { return is<List>(); }
  Value* value() const { return as<Value*>(); }
  const List& list() const { return as<List>(); }

  template <typename Visitor>
  decltype(auto) visit(Visitor&& visitor) const {
    return std::visit(std::forward<Visitor>(visitor), data_);
  }

  /// Calls `visit` with every value inside, lists included, in order.
  template <typename Visit>
  void for_each_value(Visit&& visit) const {
    if (const auto* value = get_if<Value*>()) {
      visit(*value);
    } else if (const auto* items = get_if<List>()) {
      for (const Argument& item : *items) {
        item.for_each_value(visit);
      }
    }
  }

  friend bool operator==(const Argument& a, const Argument& b);

 private:
  std::variant<std::monostate, Value*, int64_t, double, bool, std::string, c10::complex<double>, c10::ScalarType,
               c10::Device, c10::Layout, c10::MemoryFormat, GraphArgument, List>
      data_;
};

}  // namespace exporters
