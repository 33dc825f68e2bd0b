#include "exporters/pt2/sample_inputs.h"

#include "exporters/pt2/generic_hints.h"
#include "exporters/pt2/pickle_writer.h"
#include "exporters/support/json.h"
#include "exporters/weights/zip_writer.h"

#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include <span>
#include <variant>

namespace exporters::pt2 {
namespace {

using Json = nlohmann::json;
using InputKind = InputSpec::Kind;

// One leaf of the call: a tensor, a size, or a constant (None, bool, int, float, string).
using Leaf = std::variant<at::Tensor, Argument>;

// What has no form here; not an error, since sample inputs may be missing.
struct NotKnown {};

// The class of the storages of a dtype, as torch.save names it. Dtypes without one are rebuilt of bytes.
const char* storage_class(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Byte:
      return "ByteStorage";
    case c10::ScalarType::Char:
      return "CharStorage";
    case c10::ScalarType::Short:
      return "ShortStorage";
    case c10::ScalarType::Int:
      return "IntStorage";
    case c10::ScalarType::Long:
      return "LongStorage";
    case c10::ScalarType::Half:
      return "HalfStorage";
    case c10::ScalarType::Float:
      return "FloatStorage";
    case c10::ScalarType::Double:
      return "DoubleStorage";
    case c10::ScalarType::ComplexFloat:
      return "ComplexFloatStorage";
    case c10::ScalarType::ComplexDouble:
      return "ComplexDoubleStorage";
    case c10::ScalarType::Bool:
      return "BoolStorage";
    case c10::ScalarType::BFloat16:
      return "BFloat16Storage";
    default:
      throw NotKnown();
  }
}

class CallPickle {
 public:
  explicit CallPickle(std::vector<Leaf> leaves) : leaves_(std::move(leaves)) {}

  std::string archive(const TreeSpec& in_spec) && {
    size_t next = 0;
    tree(in_spec, next);
    std::vector<std::pair<std::string, std::string>> entries = {
        {"archive/data.pkl", std::move(pickle_).finish()}, {"archive/byteorder", "little"}, {"archive/version", "3\n"}};
    for (size_t i = 0; i < storages_.size(); ++i) {
      entries.emplace_back("archive/data/" + std::to_string(i), std::move(storages_[i]));
    }
    return zip_text(entries);
  }

 private:
  void tree(const TreeSpec& spec, size_t& next) {
    if (spec.is_leaf()) {
      leaf(leaves_[next++]);
    } else if (spec.type == "builtins.tuple") {
      pickle_.mark();
      children(spec, next);
      pickle_.tuple();
    } else if (spec.type == "builtins.list") {
      pickle_.empty_list();
      pickle_.mark();
      children(spec, next);
      pickle_.appends();
    } else if (spec.type == "builtins.dict") {
      members(spec, next);
    } else if (spec.type.starts_with("transformers.") && spec.type.find(':') == std::string::npos) {
      model_output(spec, next);
    } else if (spec.type.starts_with("transformers.")) {
      cache(spec, next);
    } else {
      throw NotKnown();
    }
  }

  void children(const TreeSpec& spec, size_t& next) {
    for (const TreeSpec& child : spec.children) {
      tree(child, next);
    }
  }

  void members(const TreeSpec& spec, size_t& next) {
    const std::vector<std::string> keys = spec.keys();
    pickle_.empty_dict();
    pickle_.mark();
    for (size_t i = 0; i < keys.size(); ++i) {
      pickle_.string(keys[i]);
      tree(spec.children[i], next);
    }
    pickle_.set_items();
  }

  // cls(**fields), by way of a partial call, since pickles have positional arguments only.
  void model_output(const TreeSpec& spec, size_t& next) {
    pickle_.global("functools", "partial");
    const auto class_object = [&] { global(spec.type, '.'); };
    pickle_.mark();
    class_object();
    pickle_.tuple();
    pickle_.reduce();
    pickle_.mark();
    class_object();
    pickle_.empty_tuple();
    members(spec, next);
    pickle_.none();
    pickle_.tuple();
    pickle_.build();
    pickle_.empty_tuple();
    pickle_.reduce();
  }

  // The context is a dump of the object, with numbers for its tensors.
  void cache(const TreeSpec& spec, size_t& next) {
    for (const TreeSpec& child : spec.children) {
      if (!child.is_leaf()) {
        throw NotKnown();
      }
    }
    const std::span<const Leaf> leaves = std::span(leaves_).subspan(next, spec.children.size());
    next += leaves.size();
    object(parse_json(spec.context, "the context of a cache"), leaves);
  }

  void object(const Json& value, std::span<const Leaf> leaves) {
    if (value.is_object() && value.contains("_t")) {
      return tagged(value, leaves);
    }
    if (value.is_null()) {
      pickle_.none();
    } else if (value.is_boolean()) {
      pickle_.boolean(value.get<bool>());
    } else if (value.is_number_integer()) {
      pickle_.integer(value.get<int64_t>());
    } else if (value.is_number()) {
      pickle_.number(value.get<double>());
    } else if (value.is_string()) {
      pickle_.string(value.get<std::string>());
    } else if (value.is_array()) {
      pickle_.empty_list();
      pickle_.mark();
      for (const Json& item : value) {
        object(item, leaves);
      }
      pickle_.appends();
    } else {
      dict(value, leaves);
    }
  }

  void dict(const Json& value, std::span<const Leaf> leaves) {
    pickle_.empty_dict();
    pickle_.mark();
    for (const auto& [key, member] : value.items()) {
      pickle_.string(key);
      object(member, leaves);
    }
    pickle_.set_items();
  }

  void tagged(const Json& value, std::span<const Leaf> leaves) {
    const std::string tag = value.at("_t").get<std::string>();
    if (tag == "obj") {
      global(value.at("p").get<std::string>(), ':');
      pickle_.empty_tuple();
      pickle_.new_object();
      dict(value.at("s"), leaves);
      pickle_.build();
    } else if (tag == "tensor" || tag == "sym") {
      leaf(leaves[value.at("i").get<size_t>()]);
    } else if (tag == "device") {
      call_torch("device", [&] { pickle_.string(value.at("s").get<std::string>()); });
    } else if (tag == "size") {
      call_torch("Size", [&] { object(value.at("v"), leaves); });
    } else if (tag == "dtype" || tag == "layout") {
      pickle_.global("torch", value.at("n").get<std::string>());
    } else if (tag == "type") {
      global(value.at("p").get<std::string>(), ':');
    } else if (tag == "items") {
      pickle_.empty_dict();
      pickle_.mark();
      for (const Json& item : value.at("v")) {
        object(item.at(0), leaves);
        object(item.at(1), leaves);
      }
      pickle_.set_items();
    } else {
      throw NotKnown();
    }
  }

  template <typename Argument>
  void call_torch(const char* function, Argument argument) {
    pickle_.global("torch", function);
    pickle_.mark();
    argument();
    pickle_.tuple();
    pickle_.reduce();
  }

  void global(const std::string& path, char separator) {
    const size_t position = path.rfind(separator);
    if (position == std::string::npos || path.find('\n') != std::string::npos) {
      throw NotKnown();
    }
    pickle_.global(path.substr(0, position), path.substr(position + 1));
  }

  void leaf(const Leaf& value) {
    if (const auto* sample = std::get_if<at::Tensor>(&value)) {
      return tensor(*sample);
    }
    const Argument& constant = std::get<Argument>(value);
    if (constant.is_none()) {
      pickle_.none();
    } else if (const auto* truth = constant.get_if<bool>()) {
      pickle_.boolean(*truth);
    } else if (const auto* integer = constant.get_if<int64_t>()) {
      pickle_.integer(*integer);
    } else if (const auto* number = constant.get_if<double>()) {
      pickle_.number(*number);
    } else if (const auto* text = constant.get_if<std::string>()) {
      // Python puts the text between quotes into the code of a guard, as it is.
      if (text->find_first_of("'\\\"\r\n") != std::string::npos) {
        throw NotKnown();
      }
      pickle_.string(*text);
    } else {
      throw NotKnown();
    }
  }

  // torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks)
  void tensor(const at::Tensor& sample) {
    const at::Tensor plain = sample.cpu().resolve_conj().resolve_neg().contiguous();
    const char* storage = storage_class(plain.scalar_type());
    pickle_.global("torch._utils", "_rebuild_tensor_v2");
    pickle_.mark();
    pickle_.mark();
    pickle_.string("storage");
    pickle_.global("torch", storage);
    pickle_.string(std::to_string(storages_.size()));
    pickle_.string("cpu");
    pickle_.integer(plain.numel());
    pickle_.tuple();
    pickle_.persistent();
    pickle_.integer(0);
    integers(plain.sizes());
    integers(plain.strides());
    pickle_.boolean(false);
    pickle_.global("collections", "OrderedDict");
    pickle_.empty_tuple();
    pickle_.reduce();
    pickle_.tuple();
    pickle_.reduce();
    storages_.emplace_back(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes());
  }

  void integers(at::IntArrayRef values) {
    pickle_.mark();
    for (const int64_t value : values) {
      pickle_.integer(value);
    }
    pickle_.tuple();
  }

  std::vector<Leaf> leaves_;
  PickleWriter pickle_;
  std::vector<std::string> storages_;
};

using Hints = std::map<std::string, int64_t>;

int64_t at_hints(const Expr& expr, const Hints& hints) {
  return expr.evaluate([&](Symbol symbol) {
    const auto hint = hints.find(symbol.name());
    if (hint == hints.end()) {
      throw NotKnown();
    }
    return hint->second;
  });
}

Leaf zeros_of(const Value& input, const Hints& hints) {
  if (input.kind() == Value::Kind::kSymInt) {
    return Argument(at_hints(input.sym(), hints));
  }
  if (!input.is_tensor() || input.meta().layout != c10::kStrided) {
    throw NotKnown();
  }
  std::vector<int64_t> sizes;
  for (const Expr& size : input.meta().sizes) {
    sizes.push_back(at_hints(size, hints));
  }
  return at::zeros(sizes, at::TensorOptions(input.meta().dtype));
}

std::vector<Leaf> sample_leaves(const ExportedProgram& program) {
  const bool has_samples = program.sample_inputs.size() == program.signature.user_inputs().size();
  const Hints hints = generic_hints(program);
  std::vector<Leaf> leaves;
  size_t sample = 0;
  const std::vector<Value*> placeholders = program.graph->placeholders();
  for (size_t i = 0; i < placeholders.size(); ++i) {
    const InputSpec& spec = program.signature.inputs[i];
    if (spec.kind == InputKind::kConstantInput) {
      leaves.emplace_back(spec.constant);
    } else if (spec.kind == InputKind::kUserInput) {
      const bool is_tensor = placeholders[i]->is_tensor();
      leaves.push_back(has_samples && is_tensor ? Leaf(program.sample_inputs[sample])
                                                : zeros_of(*placeholders[i], hints));
      ++sample;
    }
  }
  return leaves;
}

}  // namespace

std::optional<std::string> sample_inputs_archive(const ExportedProgram& program) {
  try {
    return CallPickle(sample_leaves(program)).archive(program.in_spec);
  } catch (const NotKnown&) {
    return std::nullopt;
  } catch (const Json::exception&) {  // a cache's context of another form
    return std::nullopt;
  }
}

}  // namespace exporters::pt2
