#pragma once

#include "exporters/onnx/emit/model.h"
#include "exporters/onnx/runner.h"
#include "exporters/symbolic/expr.h"

#include <string>
#include <vector>

namespace exporters::onnx {

/// What a program was traced with and ONNX has no field for: ranges of symbolic sizes and guards between them. They
/// travel in the model's metadata under kSizeConditionsKey as a JSON list of conditions over the model's dim_params
/// ("sequence <= 512", "Ne(batch, 3)"), and our runner checks them before each run.
inline constexpr const char* kSizeConditionsKey = "size_conditions";

class SizeConditions {
 public:
  SizeConditions() = default;
  explicit SizeConditions(std::vector<BoolExpr> conditions) : conditions_(std::move(conditions)) {}

  const std::vector<BoolExpr>& conditions() const { return conditions_; }

  std::string to_metadata() const;
  /// Of a model without the entry: none. Throws Error for an entry that is no list of conditions.
  static SizeConditions of(const OnnxMetadata& metadata);

  /// Binds names to the sizes of the inputs. Throws Error that names the inputs and axes when one name meets two sizes,
  /// or a condition does not hold.
  void check(const std::vector<OnnxValueInfo>& infos, const OnnxRunner::Inputs& inputs) const;

 private:
  std::vector<BoolExpr> conditions_;
};

}  // namespace exporters::onnx
