#include "exporters/models/pretrained.h"

#include "exporters/graph/index_limits.h"
#include "exporters/models/cache.h"
#include "exporters/support/error.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace exporters::models {
namespace {

constexpr std::string_view kReturnDict = "return_dict";

std::string argument(const ArgumentSpec& spec) { return fmt::format("argument \"{}\"", spec.name); }

void check_dtype(const ArgumentSpec& spec, const at::Tensor& tensor) {
  const c10::ScalarType dtype = tensor.scalar_type();
  if (spec.kind == ArgumentSpec::Kind::kIndices && dtype != c10::ScalarType::Long && dtype != c10::ScalarType::Int) {
    throw Error(fmt::format("dtype is {}, expected int64 or int32", c10::toString(dtype)), argument(spec));
  }
  if (spec.kind == ArgumentSpec::Kind::kFloats && !c10::isFloatingType(dtype)) {
    throw Error(fmt::format("dtype is {}, expected a floating-point type", c10::toString(dtype)), argument(spec));
  }
}

void check_tensor(const ArgumentSpec& spec, const at::Tensor& tensor) {
  check_dtype(spec, tensor);
  if (std::find(spec.ranks.begin(), spec.ranks.end(), tensor.dim()) == spec.ranks.end()) {
    throw Error(fmt::format("tensor has {} dimensions, expected {}", tensor.dim(), fmt::join(spec.ranks, " or ")),
                argument(spec));
  }
}

void check_count(const ArgumentSpec& spec, const PyTree& value) {
  const bool is_number = value.is_leaf() && std::holds_alternative<int64_t>(value.leaf());
  const bool is_tensor = value.is_tensor() && (value.tensor().scalar_type() == c10::ScalarType::Long ||
                                               value.tensor().scalar_type() == c10::ScalarType::Int);
  if (!is_number && !is_tensor) {
    throw Error("expected an integer, or a tensor of int64 or int32", argument(spec));
  }
}

void check_argument(const ArgumentSpec& spec, const ForwardArgs& args) {
  const PyTree* value = args.find(spec.name);
  if (value == nullptr || value->is_none()) {
    return;
  }
  switch (spec.kind) {
    case ArgumentSpec::Kind::kRefused:
      throw Error(fmt::format("{} is not supported: {}", argument(spec), spec.note));
    case ArgumentSpec::Kind::kFlag:
      args.flag(spec.name, false);
      return;
    case ArgumentSpec::Kind::kCount:
      check_count(spec, *value);
      return;
    case ArgumentSpec::Kind::kOutputs:
      if (value->is_leaf() || value->children().empty() || !value->children().front().is_tensor()) {
        throw Error("expected the outputs of an encoder", argument(spec),
                    "That is a ModelOutput, a tuple or a list, whose first entry is the last hidden state");
      }
      return;
    case ArgumentSpec::Kind::kCache:
      if (!Cache::is_cache(*value)) {
        throw Error("expected a cache", argument(spec),
                    "A cache is a DynamicCache, a StaticCache or an EncoderDecoderCache");
      }
      return;
    default:
      check_tensor(spec, args.tensor(spec.name));
  }
}

AttentionKind configured_attention(const ModelConfig& config) {
  for (std::string_view field : {"attn_implementation", "_attn_implementation"}) {
    if (config.has(field)) {
      return parse_attention_kind(config.string(field, ""));
    }
  }
  return AttentionKind::kSdpa;
}

}  // namespace

PreTrainedModel::PreTrainedModel(Scope scope, std::string class_name, ModelConfig config)
    : Module(std::move(scope), std::move(class_name)),
      config_(std::move(config)),
      attention_(configured_attention(config_)) {}

void PreTrainedModel::check_arguments(const ForwardArgs& args) const {
  const std::vector<ArgumentSpec> specs = arguments();
  std::vector<std::string_view> known;
  for (const ArgumentSpec& spec : specs) {
    check_argument(spec, args);
    if (spec.kind != ArgumentSpec::Kind::kRefused) {
      known.push_back(spec.name);
    }
  }
  for (const auto& [name, value] : args) {
    const bool is_known =
        std::any_of(specs.begin(), specs.end(), [&name = name](const ArgumentSpec& spec) { return spec.name == name; });
    if (!is_known) {
      throw Error(fmt::format("{} has no argument \"{}\"", class_name(), name), {},
                  fmt::format("It takes: {}", fmt::join(known, ", ")));
    }
  }
}

PyTree PreTrainedModel::forward(const ForwardArgs& args) const {
  check_arguments(args);
  Flags flags;
  flags.hidden_states = args.flag("output_hidden_states", config_.flag("output_hidden_states", false));
  flags.attentions = args.flag("output_attentions", config_.flag("output_attentions", false));
  flags.use_cache = args.flag("use_cache", config_.flag("use_cache", true));
  flags.router_logits = args.flag("output_router_logits", config_.flag("output_router_logits", false));
  flags.attention = flags.attentions ? AttentionKind::kEager : attention_;
  PyTree output = run(args, flags);
  const bool return_dict = args.flag(kReturnDict, config_.flag(kReturnDict, true));
  return return_dict ? output : PyTree::tuple(output.children());
}

PyTree PreTrainedModel::operator()(const ForwardArgs& args) const {
  const c10::InferenceMode inference;
  check_arguments(args);
  for (const ArgumentSpec& spec : arguments()) {
    if (spec.kind == ArgumentSpec::Kind::kIndices && spec.limit > 0) {
      check_indices(spec.name, args.tensor(spec.name), {spec.limit, spec.note});
    }
  }
  check_values(args);
  try {
    return forward(args);
  } catch (const c10::Error& error) {
    throw Error(error.what_without_backtrace(), class_name());
  }
}

c10::ScalarType PreTrainedModel::parameter_dtype() const {
  std::optional<c10::ScalarType> dtype;
  for_each_slot([&](const std::string&, const Slot& slot) {
    if (!dtype && slot.persistent() && slot.tensor->defined()) {
      dtype = slot.tensor->scalar_type();
    }
  });
  return dtype.value_or(c10::ScalarType::Float);
}

const PreTrainedModel& PreTrainedModel::root() const {
  const PreTrainedModel* root = this;
  for (const Module* module = parent(); module != nullptr; module = module->parent()) {
    if (const auto* model = dynamic_cast<const PreTrainedModel*>(module)) {
      root = model;
    }
  }
  return *root;
}

std::vector<StateEntry> PreTrainedModel::state() const {
  const auto& sources = root().sources_;
  std::vector<StateEntry> parameters;
  std::vector<StateEntry> buffers;
  std::map<const void*, std::string> seen;
  declared().for_each_slot([&](const std::string& name, const Slot& slot) {
    StateEntry entry{name, *slot.tensor, slot.is_buffer(), slot.persistent(), {}, {}};
    if (const auto source = sources.find(slot.tensor); source != sources.end()) {
      entry.source = source->second;
    }
    if (entry.tensor.defined()) {
      const auto [first, is_new] = seen.emplace(entry.tensor.unsafeGetTensorImpl(), name);
      entry.tied_to = is_new ? std::string() : first->second;
    }
    (slot.is_buffer() ? buffers : parameters).push_back(std::move(entry));
  });
  parameters.insert(parameters.end(), std::make_move_iterator(buffers.begin()), std::make_move_iterator(buffers.end()));
  return parameters;
}

}  // namespace exporters::models
