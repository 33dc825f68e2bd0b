#include "exporters/pt2/meta_json.h"

#include "exporters/pt2/schema.h"
#include "exporters/support/error.h"

#include <nlohmann/json.hpp>

namespace exporters::pt2 {
namespace {

using Json = nlohmann::json;

}  // namespace

std::optional<int64_t> MetaJson::hint(const Expr& expr) const {
  for (const Symbol& symbol : expr.free_symbols()) {
    if (!hints_.contains(symbol.name())) {
      return std::nullopt;
    }
  }
  return expr.evaluate([&](Symbol symbol) { return hints_.at(symbol.name()); });
}

const Json& MetaJson::size(const Expr& expr) {
  const auto found = known_.find(expr);
  if (found != known_.end()) {
    return found->second;
  }
  Json value;
  if (const auto number = expr.as_int()) {
    value = {{"as_int", *number}};
  } else {
    const auto sample = hint(expr);
    value = {{"as_expr", {{"expr_str", expr.srepr()}, {"hint", sample ? Json{{"as_int", *sample}} : Json()}}}};
  }
  return known_.emplace(expr, std::move(value)).first->second;
}

Json MetaJson::tensor(const TensorMeta& meta) {
  Json sizes = Json::array();
  Json strides = Json::array();
  for (const Expr& expr : meta.sizes) {
    sizes.push_back(size(expr));
  }
  for (const Expr& expr : meta.strides) {
    strides.push_back(size(expr));
  }
  return {{"dtype", dtype_json(meta.dtype)},     {"sizes", std::move(sizes)},
          {"requires_grad", meta.requires_grad}, {"device", device_json(meta.device)},
          {"strides", std::move(strides)},       {"storage_offset", size(meta.storage_offset)},
          {"layout", layout_json(meta.layout)}};
}

Json device_json(const c10::Device& device) {
  return {{"type", c10::DeviceTypeName(device.type(), /*lower_case=*/true)},
          {"index", device.has_index() ? Json(device.index()) : Json()}};
}

int64_t dtype_json(c10::ScalarType dtype) {
  const auto code = dtype_code(dtype);
  ensure(code.has_value(), "A .pt2 archive has no code for the dtype {}", c10::toString(dtype));
  return *code;
}

int64_t layout_json(c10::Layout layout) {
  const auto code = layout_code(layout);
  ensure(code.has_value(), "A .pt2 archive has no code for the layout {}", static_cast<int>(layout));
  return *code;
}

std::string json_text(const Json& value) {
  try {
    return value.dump();
  } catch (const Json::type_error&) {
    fail("A name or text of the program is not UTF-8, which a .pt2 archive cannot hold");
  }
}

}  // namespace exporters::pt2
