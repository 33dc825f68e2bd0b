#include "exporters/framework/metadata.h"

#include "exporters/framework/pytree_nodes.h"
#include "exporters/graph/dtype.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace exporters {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

ordered_json leaf_json(const PyTree::Leaf& leaf) {
  return std::visit(
      [](const auto& value) -> ordered_json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, at::Tensor>) {
          return nullptr;
        } else {
          return value;
        }
      },
      leaf);
}

PyTree::Leaf leaf_of(const json& value, const std::string& where) {
  if (value.is_null()) return std::monostate();
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  throw Error("a constant is null, a bool, a number or a string, not " + std::string(value.type_name()), where);
}

ordered_json tensor_json(const at::Tensor& tensor) {
  return {{"rank", tensor.dim()},
          {"shape", tensor.sizes().vec()},
          {"dtype", std::string(dtype_name(tensor.scalar_type()))}};
}

// Python's type names, for the entries that are neither tensors nor mappings.
std::string python_type(const PyTree& value) {
  if (!value.is_leaf()) {
    const std::string& type = value.type();
    const size_t cut = type.find_last_of(".:");
    return cut == std::string::npos ? type : type.substr(cut + 1);
  }
  static constexpr const char* kNames[] = {"NoneType", "Tensor", "bool", "int", "float", "str"};
  return kNames[value.leaf().index()];
}

bool is_mapping(const PyTree& value) {
  return value.type() == "builtins.dict" || value.type() == "collections.OrderedDict" || is_model_output(value.type());
}

ordered_json kwarg_json(const PyTree& value) {
  if (value.is_tensor()) {
    return tensor_json(value.tensor());
  }
  if (is_mapping(value)) {
    ordered_json leaves = ordered_json::object();
    const std::vector<std::string> keys = value.spec().keys();
    for (size_t i = 0; i < keys.size(); ++i) {
      leaves[keys[i]] = kwarg_json(value.children()[i]);
    }
    return {{"leaves", leaves}};
  }
  return {{"container", python_type(value)}};
}

ordered_json text_or_null(const std::string& text) { return text.empty() ? ordered_json(nullptr) : ordered_json(text); }

TreeSpec spec_of(const JsonField& field) {
  try {
    return TreeSpec::loads(field.as_string());
  } catch (const Error& error) {
    throw error.with_context(field.path() + " in " + field.file());
  }
}

}  // namespace

bool ExportMetadata::takes(std::string_view name) const {
  // "cache.layers.0.keys" belongs to the argument "cache"; a lone program's own names may hold dots.
  const std::string_view root = name.substr(0, name.find('.'));
  return std::any_of(kwargs.begin(), kwargs.end(),
                     [&](const Kwarg& kwarg) { return kwarg.name == name || kwarg.name == root; });
}

ordered_json ExportMetadata::to_json() const {
  ordered_json result;
  result["architecture"] = text_or_null(architecture);
  result["packages"] = ordered_json::object();
  for (const auto& [name, version] : packages) {
    result["packages"][name] = version;
  }
  result["export_config"] = ordered_json::parse(export_config);
  result["export_dtype"] = text_or_null(export_dtype);
  result["export_device"] = text_or_null(export_device);
  result["kwargs"] = ordered_json::object();
  for (const Kwarg& kwarg : kwargs) {
    result["kwargs"][kwarg.name] = ordered_json::parse(kwarg.description);
  }
  result["in_spec"] = in_spec.dumps();
  result["out_spec"] = out_spec.dumps();
  result["in_constants"] = ordered_json::object();
  for (const auto& [name, value] : in_constants) {
    result["in_constants"][name] = leaf_json(value);
  }
  result["out_constants"] = ordered_json::array();
  for (const auto& [index, value] : out_constants) {
    result["out_constants"].push_back({index, leaf_json(value)});
  }
  return result;
}

ExportMetadata ExportMetadata::from_json(const json& value, const std::string& where) {
  const JsonField field(value, where);
  ExportMetadata result;
  result.architecture = field.get_string("architecture", "");
  if (const auto packages = field.find("packages")) {
    for (const std::string& name : packages->keys()) {
      result.packages.emplace_back(name, packages->get_string(name, ""));
    }
  }
  if (const auto config = field.find("export_config")) {
    result.export_config = config->value().dump();
  }
  result.export_dtype = field.get_string("export_dtype", "");
  result.export_device = field.get_string("export_device", "");
  if (const auto in_spec = field.find("in_spec")) {
    result.in_spec = spec_of(*in_spec);
  }
  result.out_spec = spec_of(field.at("out_spec"));
  // A plain list of names is accepted, as the reference does.
  if (const auto kwargs = field.find("kwargs")) {
    if (kwargs->is_array()) {
      for (const std::string& name : kwargs->as_strings()) {
        result.kwargs.push_back({name, {}, "{}"});
      }
    } else {
      // The order of the call is that of in_spec; the parser sorts keys.
      for (const std::string& name : kwargs->keys()) {
        result.kwargs.push_back({name, {}, kwargs->at(name).value().dump()});
      }
    }
  }
  if (const auto constants = field.find("in_constants")) {
    for (const std::string& name : constants->keys()) {
      result.in_constants.emplace_back(name, leaf_of(constants->value().at(name), where));
    }
  }
  if (const auto constants = field.find("out_constants")) {
    for (const JsonField& pair : constants->elements()) {
      const auto items = pair.elements();
      ensure(items.size() == 2, "an entry of out_constants in {} is [leaf index, value]", where);
      const int64_t index = items[0].as_int();
      ensure(index >= 0 && static_cast<size_t>(index) < result.out_spec.leaf_count(),
             "out_constants in {} names leaf {}, out_spec has {}", where, index, result.out_spec.leaf_count());
      result.out_constants.emplace_back(static_cast<size_t>(index), leaf_of(items[1].value(), where));
    }
  }
  return result;
}

PyTree::Leaf constant_leaf(const Argument& constant) {
  if (const auto* value = constant.get_if<bool>()) return *value;
  if (const auto* value = constant.get_if<int64_t>()) return *value;
  if (const auto* value = constant.get_if<double>()) return *value;
  if (const auto* value = constant.get_if<std::string>()) return *value;
  ensure(constant.is_none(),
         "an argument or output that is no tensor, None, bool, number or string cannot be recorded");
  return std::monostate();
}

std::vector<std::pair<size_t, PyTree::Leaf>> constant_outputs(const ExportedProgram& program) {
  std::vector<std::pair<size_t, PyTree::Leaf>> result;
  size_t leaf = 0;
  for (const OutputSpec& output : program.signature.outputs) {
    if (output.kind != OutputSpec::Kind::kUserOutput && output.kind != OutputSpec::Kind::kLossOutput) {
      continue;
    }
    if (!output.argument.is_value()) {
      result.emplace_back(leaf, constant_leaf(output.argument));
    }
    ++leaf;
  }
  return result;
}

void describe_inputs(ExportMetadata& metadata, const std::vector<std::pair<std::string, PyTree>>& inputs) {
  for (const auto& [name, value] : inputs) {
    metadata.kwargs.push_back({name, value, kwarg_json(value).dump()});
    if (value.is_leaf() && !value.is_tensor()) {
      metadata.in_constants.emplace_back(name, value.leaf());
    }
  }
  metadata.in_spec = PyTree::tuple({PyTree::tuple({}), PyTree::dict(inputs)}).spec();
}

}  // namespace exporters
