#include "exporters/framework/dynamic_shapes.h"

#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <optional>

namespace exporters {

using nlohmann::json;

namespace {

constexpr const char* kAllowed =
    "An axis is \"auto\", \"static\", a name with a range (\"batch\", \"batch 1:64\"), a name times a factor plus an "
    "offset (\"2*batch + 1\"), an integer, or null for static.";
constexpr int kMaxDepth = 16;

std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                   : std::nullopt;
}

int64_t range_bound(std::string_view text, std::string_view whole) {
  const std::optional<int64_t> value = integer(text);
  if (!value || *value < 0) {
    throw Error(quote(whole) + " is no range", {}, "Write MIN:MAX, for example 1:64; either side may be left out.");
  }
  return *value;
}

std::string_view stripped(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

// ── The reference's reprs ──

struct ReprBounds {
  std::optional<int64_t> min;
  std::optional<int64_t> max;
};

// "min=1, max=16", in this order, either left out.
std::optional<ReprBounds> read_bounds(std::string_view text) {
  ReprBounds bounds;
  for (bool first = true; !text.empty(); first = false) {
    if (!first && !take(text, ", ")) {
      return std::nullopt;
    }
    std::optional<int64_t>& slot = text.starts_with("min=") ? bounds.min : bounds.max;
    if (slot || !(take(text, "min=") || take(text, "max="))) {
      return std::nullopt;
    }
    const std::string_view number = text.substr(0, text.find(','));
    slot = number == "int_oo" ? std::optional(Range::kMax) : integer(number);
    if (!slot) {
      return std::nullopt;
    }
    text.remove_prefix(number.size());
  }
  return bounds;
}

std::optional<Dim> parse_repr(std::string_view text) {
  if (!text.ends_with(")")) {
    return std::nullopt;
  }
  text.remove_suffix(1);
  if (take(text, "Dim('")) {
    const size_t quote_at = text.find('\'');
    if (quote_at == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string name(text.substr(0, quote_at));
    text.remove_prefix(quote_at + 1);
    take(text, ", ");
    const auto bounds = read_bounds(text);
    // torch's repr leaves out a minimum of 2.
    return bounds ? std::optional(Dim::named(name, bounds->min.value_or(2), bounds->max.value_or(Range::kMax)))
                  : std::nullopt;
  }
  if (!take(text, "DimHint(")) {
    return std::nullopt;
  }
  if (text == "STATIC") {
    return Dim::Static();
  }
  if (text == "DYNAMIC") {
    throw Error("DimHint(DYNAMIC) is not supported", {},
                "Give the axis a name: a named Dim has to stay dynamic too, and errors can speak of it.");
  }
  if (!take(text, "AUTO")) {
    return std::nullopt;
  }
  take(text, ", ");
  const auto bounds = read_bounds(text);
  return bounds ? std::optional(Dim::Auto(bounds->min, bounds->max)) : std::nullopt;
}

// ── JSON ──

std::optional<int64_t> axis_number(const std::string& key) {
  const std::optional<int64_t> axis = integer(key);
  return axis && std::abs(*axis) < 64 ? axis : std::nullopt;
}

bool is_dim(const json& value) { return value.is_string() || value.is_number_integer() || value.is_null(); }

Dim dim_from_json(const json& value) {
  if (value.is_null()) {
    return Dim::Static();
  }
  if (value.is_number_integer()) {
    const auto size = value.get<int64_t>();
    ensure(size >= 0, "{} is no size", size);
    return Dim::Auto(size, size);
  }
  if (!value.is_string()) {
    throw Error(value.dump() + " is no axis", {}, kAllowed);
  }
  return parse_dim(value.get<std::string>());
}

void read_spec(const std::string& path, const json& spec, DynamicShapes& shapes, int depth);

void read_axis(const std::string& path, int64_t axis, const json& dim, DynamicShapes& shapes) {
  try {
    shapes[path].insert_or_assign(axis, dim_from_json(dim));
  } catch (const Error& error) {
    throw error.with_context(fmt::format("dynamic_shapes, {} axis {}", quote(path), axis));
  }
}

void read_object(const std::string& path, const json& spec, DynamicShapes& shapes, int depth) {
  shapes[path];
  for (const auto& [key, value] : spec.items()) {
    if (const auto axis = axis_number(key); axis && is_dim(value)) {
      read_axis(path, *axis, value, shapes);
    } else {
      read_spec(path + "." + key, value, shapes, depth + 1);
    }
  }
  const bool only_below = shapes.at(path).empty() && !spec.empty();
  if (only_below) {
    shapes.erase(path);
  }
}

void read_list(const std::string& path, const json& spec, DynamicShapes& shapes, int depth) {
  const bool axes = std::all_of(spec.begin(), spec.end(), is_dim);
  for (size_t i = 0; i < spec.size(); ++i) {
    if (axes) {
      read_axis(path, static_cast<int64_t>(i), spec[i], shapes);
    } else {
      read_spec(path + "." + std::to_string(i), spec[i], shapes, depth + 1);
    }
  }
}

void read_spec(const std::string& path, const json& spec, DynamicShapes& shapes, int depth) {
  ensure(depth < kMaxDepth, "dynamic_shapes is nested deeper than {}", kMaxDepth);
  if (spec.is_null()) {
    shapes[path];
  } else if (spec.is_object()) {
    read_object(path, spec, shapes, depth);
  } else if (spec.is_array()) {
    read_list(path, spec, shapes, depth);
  } else {
    throw Error(
        spec.dump() + " does not say what the axes are", "dynamic_shapes, " + quote(path),
        "Write axes by number, {\"0\": \"batch\"}, in order, [\"batch\", \"auto\"], or null for a static input.");
  }
}

}  // namespace

Range parse_range(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    const int64_t size = range_bound(text, text);
    return {size, size};
  }
  Range range{1, Range::kMax};
  if (colon > 0) {
    range.min = range_bound(text.substr(0, colon), text);
  }
  if (colon + 1 < text.size()) {
    range.max = range_bound(text.substr(colon + 1), text);
  }
  ensure(range.min <= range.max, "the range {} is empty", text);
  return range;
}

Dim parse_dim(std::string_view text) {
  const std::string_view whole = stripped(text);
  if (whole.starts_with("Dim")) {
    if (const auto dim = parse_repr(whole)) {
      return *dim;
    }
  }
  const size_t space = whole.rfind(' ');
  const bool has_range = space != std::string_view::npos && whole.find(':', space) != std::string_view::npos;
  const std::string_view what = has_range ? stripped(whole.substr(0, space)) : whole;
  const std::optional<Range> range = has_range ? std::optional(parse_range(whole.substr(space + 1))) : std::nullopt;
  if (what == "auto") {
    return range ? Dim::Auto(range->min, range->max) : Dim::Auto();
  }
  if (what == "static") {
    if (has_range) {
      throw Error(quote(text) + " is no axis", {}, kAllowed);
    }
    return Dim::Static();
  }
  try {
    const Dim dim = Dim::parse(what);
    return range ? Dim::derived(dim.name(), dim.factor(), dim.offset(), *range) : dim;
  } catch (const Error&) {
    throw Error(quote(text) + " is no axis", {}, kAllowed);
  }
}

std::string dim_text(const Dim& dim) {
  const bool is_derived = dim.kind() == Dim::Kind::kNamed && (dim.factor() != 1 || dim.offset() != 0);
  const Range range = dim.range();
  if (!is_derived || range == Range{1, Range::kMax}) {
    return dim.str();
  }
  return fmt::format("{} {}:{}", dim.str(), range.min, range.max == Range::kMax ? "" : std::to_string(range.max));
}

DynamicShapes dynamic_shapes_from_json(const json& value) {
  DynamicShapes shapes;
  if (value.is_null()) {
    return shapes;
  }
  ensure(value.is_object(), "dynamic_shapes is an object of inputs, or null, not {}", value.type_name());
  for (const auto& [input, spec] : value.items()) {
    read_spec(input, spec, shapes, 0);
  }
  return shapes;
}

json to_json(const DynamicShapes& shapes) {
  if (shapes.empty()) {
    return nullptr;
  }
  json result = json::object();
  for (const auto& [input, axes] : shapes) {
    json& entry = result[input] = json::object();
    for (const auto& [axis, dim] : axes) {
      entry[std::to_string(axis)] = dim_text(dim);
    }
  }
  return result;
}

void check_dims(const DynamicShapes& shapes) {
  struct Root {
    Range range;
    std::string where;
  };
  std::map<std::string, Root> roots;
  for (const auto& [input, axes] : shapes) {
    for (const auto& [axis, dim] : axes) {
      if (dim.kind() != Dim::Kind::kNamed) {
        continue;
      }
      const std::string where = fmt::format("{} axis {}", quote(input), axis);
      const auto [known, is_new] = roots.emplace(dim.name(), Root{dim.range(), where});
      Range& range = known->second.range;
      const Range common{std::max(range.min, dim.range().min), std::min(range.max, dim.range().max)};
      ensure(common.min <= common.max,
             "dynamic_shapes contradicts itself: Dim '{}' has the range {} at {} and {} at {}", dim.name(), range.str(),
             known->second.where, dim.range().str(), where);
      range = common;
    }
  }
  for (const auto& [input, axes] : shapes) {
    for (const auto& [axis, dim] : axes) {
      const auto root = roots.find(dim.name());
      const bool negative =
          root != roots.end() && static_cast<double>(dim.factor()) * static_cast<double>(root->second.range.min) +
                                         static_cast<double>(dim.offset()) <
                                     0;
      if (negative) {
        throw Error(fmt::format("{} axis {} would have a negative size: it is {}, and '{}' may be {}", quote(input),
                                axis, dim.str(), dim.name(), root->second.range.min),
                    "dynamic_shapes", "Give '" + dim.name() + "' a minimum.");
      }
    }
  }
}

}  // namespace exporters
