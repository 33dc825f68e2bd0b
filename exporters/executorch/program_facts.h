#pragma once

#include "exporters/framework/exporter.h"
#include "exporters/graph/index_limits.h"
#include "exporters/symbolic/expr.h"

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace exporters::executorch {

/// Calls of one op that no delegate took, for one reason.
struct OutsideDelegates {
  std::string op;
  std::string reason;
  int64_t count = 0;
  friend bool operator==(const OutsideDelegates&, const OutsideDelegates&) = default;
};

/// What the format has no field for. It travels as a piece of the program's named data, under kFactsKey, as JSON;
/// runtimes pass over data that no delegate asks for.
struct ProgramFacts {
  std::vector<ValueDescription> inputs;  ///< tensors, with names for their dynamic axes
  std::vector<ValueDescription> outputs;
  std::vector<std::string> conditions;  ///< on sizes: "sequence <= 512"
  IndexLimits index_limits;             ///< by input
  std::string backend;                  ///< "xnnpack"
  int64_t delegated_calls = 0;
  std::vector<OutsideDelegates> outside;

  std::string to_json() const;
  /// Throws Error for a text that is none of this.
  static ProgramFacts from_json(const std::string& text);

  /// Binds the names of axes to the sizes of these inputs. Throws Error that names the inputs and axes when one name
  /// meets two sizes, a condition does not hold, or an input holds an index beyond its limit.
  void check(const std::map<std::string, at::Tensor>& given) const;
};

inline constexpr std::string_view kFactsKey = "exporters.cpp/facts";
/// Of one method, in a program of several.
inline std::string facts_key(std::string_view method) { return std::string(kFactsKey) + "/" + std::string(method); }

}  // namespace exporters::executorch
