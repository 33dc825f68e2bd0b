#include "exporters/models/layers/rotary.h"

#include "exporters/models/operators.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/max.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace exporters::models {
namespace {

constexpr int64_t kMaxRotaryDim = 1 << 20;

// ── Frequencies, in the reference's order of float32 operations ──

struct Computed {
  at::Tensor inv_freq;
  double attention_scaling = 1.0;
  at::Tensor long_inv_freq = {};
};

/// 0/dim, 2/dim, 4/dim, …
at::Tensor exponents(int64_t dim, int64_t denominator) {
  return at::arange(0, dim, 2, at::TensorOptions().dtype(c10::ScalarType::Long)).to(c10::ScalarType::Float) /
         denominator;
}

at::Tensor base_powers(const RopeParameters& rope) {
  return at::pow(at::Scalar(rope.theta), exponents(rope.rotary_dim(), rope.rotary_dim()));
}

at::Tensor unscaled(const RopeParameters& rope) { return at::reciprocal(base_powers(rope)); }

Computed default_rope(const RopeParameters& rope) { return {unscaled(rope)}; }

Computed linear_rope(const RopeParameters& rope) { return {unscaled(rope) / *rope.factor}; }

// The first part of the frequencies over the whole head; the others do not turn.
Computed proportional_rope(const RopeParameters& rope) {
  const auto angles =
      static_cast<int64_t>(std::floor(rope.partial_rotary_factor * static_cast<double>(rope.head_dim) / 2));
  at::Tensor inv_freq = at::reciprocal(at::pow(at::Scalar(rope.theta), exponents(2 * angles, rope.head_dim)));
  if (const int64_t still = rope.head_dim / 2 - angles; still > 0) {
    inv_freq = at::cat({inv_freq, at::zeros({still})});
  }
  return {inv_freq / rope.factor.value_or(1.0)};
}

double yarn_mscale(double scale, double mscale) { return scale <= 1 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0; }

double yarn_attention_factor(const RopeParameters& rope, double factor) {
  if (rope.attention_factor) {
    return *rope.attention_factor;
  }
  if (rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0) {
    return yarn_mscale(factor, *rope.mscale) / yarn_mscale(factor, *rope.mscale_all_dim);
  }
  return yarn_mscale(factor, 1.0);
}

// Dimensions between which interpolation fades in, by how often they turn within the original length.
std::pair<double, double> yarn_range(const RopeParameters& rope) {
  const auto dim = static_cast<double>(rope.rotary_dim());
  const auto dimension_of = [&](double rotations) {
    const double length = static_cast<double>(rope.original_max_position_embeddings);
    return dim * std::log(length / (rotations * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
  };
  double low = dimension_of(rope.beta_fast);
  double high = dimension_of(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  return {std::max(low, 0.0), std::min(high, dim - 1)};
}

// YaRN: Efficient Context Window Extension of Large Language Models (Peng et al., 2023).
Computed yarn_rope(const RopeParameters& rope) {
  const double factor = rope.factor.value_or(static_cast<double>(rope.max_position_embeddings) /
                                             static_cast<double>(rope.original_max_position_embeddings));
  auto [low, high] = yarn_range(rope);
  if (low == high) {
    high += 0.001;
  }
  const at::Tensor steps = at::arange(rope.rotary_dim() / 2, at::TensorOptions().dtype(c10::ScalarType::Float));
  const at::Tensor ramp = at::clamp((steps - low) / (high - low), 0, 1);
  const at::Tensor powers = base_powers(rope);
  const at::Tensor extrapolated = at::reciprocal(powers);
  const at::Tensor interpolated = at::reciprocal(powers * factor);
  const at::Tensor kept = at::neg(ramp) + 1;
  return {interpolated * (at::neg(kept) + 1) + extrapolated * kept, yarn_attention_factor(rope, factor)};
}

at::Tensor float_tensor(const std::vector<double>& values) {
  std::vector<float> floats(values.begin(), values.end());
  return at::from_blob(floats.data(), {static_cast<int64_t>(floats.size())}).clone();
}

// LongRoPE (Ding et al., 2024).
Computed longrope(const RopeParameters& rope) {
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  const double factor = rope.factor.value_or(static_cast<double>(rope.max_position_embeddings) / original);
  const double scaling = factor <= 1.0 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
  const at::Tensor powers = base_powers(rope);
  return {at::reciprocal(float_tensor(rope.short_factor) * powers), rope.attention_factor.value_or(scaling),
          at::reciprocal(float_tensor(rope.long_factor) * powers)};
}

Computed llama3_rope(const RopeParameters& rope) {
  const at::Tensor inv_freq = unscaled(rope);
  const double factor = *rope.factor;
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  const double longest = original / rope.low_freq_factor;
  const double shortest = original / rope.high_freq_factor;
  const at::Tensor wavelength = at::reciprocal(inv_freq) * (2 * std::numbers::pi);
  const at::Tensor slowed = at::where(at::gt(wavelength, longest), inv_freq / factor, inv_freq);
  const at::Tensor smooth =
      (at::reciprocal(wavelength) * original - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  const at::Tensor smoothed = (at::neg(smooth) + 1) * slowed / factor + smooth * slowed;
  const at::Tensor is_between = at::bitwise_and(at::ge(wavelength, shortest), at::le(wavelength, longest));
  return {at::where(is_between, smoothed, slowed)};
}

// ── The table of types ──

/// A field that a type cannot do without.
enum class Needs { kNothing, kFactor, kLlama3, kLongRope, kDynamic, kOriginalLength };

struct RopeType {
  std::string_view name;
  Computed (*compute)(const RopeParameters& rope);
  Needs needs;
};

constexpr RopeType kTypes[] = {
    {"default", default_rope, Needs::kNothing},
    {"linear", linear_rope, Needs::kFactor},
    {"dynamic", default_rope, Needs::kDynamic},
    {"yarn", yarn_rope, Needs::kOriginalLength},
    {"longrope", longrope, Needs::kLongRope},
    {"llama3", llama3_rope, Needs::kLlama3},
    {"proportional", proportional_rope, Needs::kNothing},
};

const RopeType& rope_type(std::string_view name) {
  std::vector<std::string_view> known;
  for (const RopeType& type : kTypes) {
    if (type.name == name) {
      return type;
    }
    known.push_back(type.name);
  }
  throw Error(fmt::format("rope type {} is not supported", quote(name)), {}, suggest(name, known));
}

// ── Reading ──

std::optional<double> optional_number(const JsonField& fields, std::string_view name) {
  const auto field = fields.find(name);
  return field ? std::optional(field->as_double()) : std::nullopt;
}

std::vector<double> factors(const JsonField& fields, std::string_view name) {
  const auto field = fields.find(name);
  return field ? field->as_doubles() : std::vector<double>();
}

double positive(const JsonField& fields, std::string_view name, double value) {
  if (!(value > 0) || !std::isfinite(value)) {
    fields.fail_here(fmt::format("has {} = {}, which must be a positive number", name, value));
  }
  return value;
}

void require_factor(const JsonField& fields, const RopeParameters& rope) {
  if (!rope.factor) {
    fields.fail_here(fmt::format("has no factor, which rope type {} needs", quote(rope.type)));
  }
  positive(fields, "factor", *rope.factor);
}

void check_long_factors(const JsonField& fields, const RopeParameters& rope) {
  const auto expected = static_cast<size_t>((rope.rotary_dim() + 1) / 2);
  for (const auto& [name, list] :
       {std::pair("short_factor", &rope.short_factor), std::pair("long_factor", &rope.long_factor)}) {
    if (list->size() != expected) {
      fields.fail_here(fmt::format("has {} numbers in {}, expected {}", list->size(), name, expected));
    }
  }
}

void check_needs(const JsonField& fields, const RopeParameters& rope) {
  switch (rope_type(rope.type).needs) {
    case Needs::kNothing:
    case Needs::kOriginalLength:
      return;
    case Needs::kFactor:
      return require_factor(fields, rope);
    case Needs::kDynamic:
      if (rope.rotary_dim() <= 2) {
        fields.fail_here("has rope type \"dynamic\" with heads of two dimensions or fewer, for which it is undefined");
      }
      return require_factor(fields, rope);
    case Needs::kLongRope:
      return check_long_factors(fields, rope);
    case Needs::kLlama3:
      require_factor(fields, rope);
      positive(fields, "low_freq_factor", rope.low_freq_factor);
      positive(fields, "high_freq_factor", rope.high_freq_factor);
      if (rope.low_freq_factor == rope.high_freq_factor) {
        fields.fail_here("has low_freq_factor equal to high_freq_factor");
      }
      return;
  }
}

std::string type_name(const JsonField& fields, const RopeDefaults& defaults) {
  const std::string name = fields.get_string("rope_type", fields.get_string("type", "default"));
  for (const auto& [alias, type] : defaults.aliases) {
    if (alias == name) {
      return std::string(type);
    }
  }
  return name;
}

void check_partial(const JsonField& fields, RopeParameters& rope, const RopeDefaults& defaults) {
  positive(fields, "partial_rotary_factor", rope.partial_rotary_factor);
  if (rope.partial_rotary_factor > 1) {
    fields.fail_here(fmt::format("has partial_rotary_factor = {}, at most 1 is possible", rope.partial_rotary_factor));
  }
  if (defaults.partial || rope.partial_rotary_factor == 1 || rope.type == "proportional") {
    return;
  }
  // The reference's families without partial rotation do not read the factor for "default", and fail for the others.
  if (rope.type != "default") {
    fields.fail_here(
        fmt::format("has partial_rotary_factor = {}, which this model type does not have", rope.partial_rotary_factor));
  }
  rope.partial_rotary_factor = 1;
}

RopeParameters read_fields(const JsonField& fields, double theta, double partial, const RopeDefaults& defaults,
                           std::optional<int64_t> original_length) {
  RopeParameters rope;
  rope.type = type_name(fields, defaults);
  rope.theta = positive(fields, "rope_theta", fields.get_double("rope_theta", theta));
  rope.head_dim = defaults.head_dim;
  rope.partial_rotary_factor = fields.get_double("partial_rotary_factor", partial);
  rope.max_position_embeddings = defaults.max_position_embeddings;
  rope.original_max_position_embeddings =
      original_length.value_or(fields.get_int("original_max_position_embeddings", defaults.max_position_embeddings));
  positive(fields, "original_max_position_embeddings", static_cast<double>(rope.original_max_position_embeddings));
  rope.factor = optional_number(fields, "factor");
  rope.attention_factor = optional_number(fields, "attention_factor");
  const auto or_default = [](double value, double otherwise) { return value == 0 ? otherwise : value; };
  rope.beta_fast = or_default(fields.get_double("beta_fast", 0), 32);
  rope.beta_slow = or_default(fields.get_double("beta_slow", 0), 1);
  rope.mscale = optional_number(fields, "mscale");
  rope.mscale_all_dim = optional_number(fields, "mscale_all_dim");
  rope.truncate = fields.get_bool("truncate", true);
  rope.low_freq_factor = fields.get_double("low_freq_factor", 0);
  rope.high_freq_factor = fields.get_double("high_freq_factor", 0);
  rope.short_factor = factors(fields, "short_factor");
  rope.long_factor = factors(fields, "long_factor");
  rope_type(rope.type);
  check_partial(fields, rope, defaults);
  // Dimensions rotate in pairs.
  if (rope.rotary_dim() < 2 || rope.rotary_dim() > kMaxRotaryDim || rope.rotary_dim() % 2 != 0) {
    fields.fail_here(
        fmt::format("makes {} of a head's {} dimensions rotate; an even number can", rope.rotary_dim(), rope.head_dim));
  }
  check_needs(fields, rope);
  return rope;
}

bool is_given(const std::optional<JsonField>& field) {
  return field && !(field->is_object() && field->value().empty());
}

}  // namespace

int64_t RopeParameters::rotary_dim() const {
  return type == "proportional" ? head_dim
                                : static_cast<int64_t>(static_cast<double>(head_dim) * partial_rotary_factor);
}

RopeParameters read_rope_parameters(const ModelConfig& config, const RopeDefaults& defaults) {
  const JsonField root(config.json(), config.where());
  const nlohmann::json nothing = nlohmann::json::object();
  std::optional<JsonField> fields = root.find("rope_scaling");
  if (!is_given(fields)) {
    fields = root.find("rope_parameters");
  }
  const JsonField given = is_given(fields) ? *fields : JsonField(nothing, config.where());
  std::optional<int64_t> original = defaults.original_max_position_embeddings;
  if (const auto field = root.find("original_max_position_embeddings")) {
    original = field->as_int();
  }
  return read_fields(given, config.number("rope_theta", defaults.theta),
                     config.number("partial_rotary_factor", defaults.partial_rotary_factor), defaults, original);
}

RopeParameters read_rope_parameters(const ModelConfig& config, std::string_view layer_type,
                                    const RopeDefaults& defaults) {
  const JsonField root(config.json(), config.where());
  const nlohmann::json nothing = nlohmann::json::object();
  const auto all = root.find("rope_parameters");
  const auto fields = all ? all->find(layer_type) : std::nullopt;
  return read_fields(fields ? *fields : JsonField(nothing, config.where()), defaults.theta,
                     defaults.partial_rotary_factor, defaults, defaults.original_max_position_embeddings);
}

RotaryEmbedding::RotaryEmbedding(Scope scope, std::string class_name, RopeParameters parameters)
    : Module(std::move(scope), std::move(class_name)) {
  add("", std::move(parameters));
}

RotaryEmbedding::RotaryEmbedding(Scope scope, std::string class_name,
                                 std::vector<std::pair<std::string, RopeParameters>> by_type)
    : Module(std::move(scope), std::move(class_name)) {
  for (auto& [type, parameters] : by_type) {
    add(type + "_", std::move(parameters));
  }
}

void RotaryEmbedding::add(const std::string& prefix, RopeParameters parameters) {
  const auto compute = rope_type(parameters.type).compute;
  const Computed computed = compute(parameters);
  Frequencies& added = frequencies_.emplace_back();
  added.parameters = std::move(parameters);
  added.attention_scaling = computed.attention_scaling;
  added.long_inv_freq = computed.long_inv_freq;
  buffer(prefix + "inv_freq", added.inv_freq, [value = computed.inv_freq] { return value.clone(); });
  buffer(prefix + "original_inv_freq", added.original_inv_freq, [value = computed.inv_freq] { return value.clone(); });
}

// Where the type depends on the length of the sequence, both answers are computed and one is chosen by value.
at::Tensor RotaryEmbedding::inv_freq_at(const Frequencies& frequencies, const at::Tensor& position_ids) {
  const RopeParameters& rope = frequencies.parameters;
  if (rope.type == "longrope") {
    const at::Tensor length = at::max(position_ids) + 1;
    return at::where(at::gt(length, rope.original_max_position_embeddings), frequencies.long_inv_freq,
                     frequencies.inv_freq);
  }
  if (rope.type == "dynamic") {
    const auto dim = static_cast<double>(rope.rotary_dim());
    const at::Tensor length = at::max(position_ids) + 1;
    const at::Tensor grown = at::clamp_min(length, rope.max_position_embeddings).to(c10::ScalarType::Float);
    const at::Tensor stretch = grown * *rope.factor / rope.max_position_embeddings - (*rope.factor - 1);
    const at::Tensor base = at::pow(stretch, dim / (dim - 2)) * rope.theta;
    const at::Tensor stretched = at::reciprocal(at::pow(base, exponents(rope.rotary_dim(), rope.rotary_dim())));
    return at::where(at::gt(length, rope.max_position_embeddings), stretched, frequencies.inv_freq);
  }
  return frequencies.inv_freq;
}

RotaryPositions RotaryEmbedding::operator()(const at::Tensor& position_ids, c10::ScalarType dtype, size_t index) const {
  const auto scope = enter();
  const Frequencies& frequencies = frequencies_.at(index);
  const at::Tensor half =
      position_ids.unsqueeze(-1).to(c10::ScalarType::Float) * inv_freq_at(frequencies, position_ids);
  const at::Tensor angles = at::cat({half, half}, -1);
  RotaryPositions positions{at::cos(angles), at::sin(angles)};
  if (frequencies.attention_scaling != 1.0) {
    positions.cos = positions.cos * frequencies.attention_scaling;
    positions.sin = positions.sin * frequencies.attention_scaling;
  }
  return {positions.cos.to(dtype), positions.sin.to(dtype)};
}

at::Tensor apply_rotary(const at::Tensor& states, const RotaryPositions& positions) {
  const int64_t head_dim = states.sym_size(-1).guard_int(__FILE__, __LINE__);
  const int64_t rotary_dim = positions.cos.sym_size(-1).guard_int(__FILE__, __LINE__);
  const at::Tensor part = rotary_dim == head_dim ? states : states.slice(-1, 0, rotary_dim);
  const at::Tensor first = part.slice(-1, 0, rotary_dim / 2);
  const at::Tensor second = part.slice(-1, rotary_dim / 2, rotary_dim);
  const at::Tensor turned = at::cat({at::neg(second), first}, -1);
  const at::Tensor rotated =
      (part * positions.cos.unsqueeze(1) + turned * positions.sin.unsqueeze(1)).to(states.scalar_type());
  return rotary_dim == head_dim ? rotated : at::cat({rotated, states.slice(-1, rotary_dim, head_dim)}, -1);
}

}  // namespace exporters::models
