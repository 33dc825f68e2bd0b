#include "exporters/graph/tree_spec.h"

#include "exporters/graph/json_text.h"
#include "exporters/support/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace exporters {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr size_t kMaxBytes = size_t{64} << 20;

Json parse_context(const std::string& context) { return Json::parse(context, nullptr, /*allow_exceptions=*/false); }

// The list of names in a dict's or ModelOutput's context. A defaultdict wraps it; a dataclass has the fields that are
// None in a second list.
const Json* name_list(const Json& context) {
  if (context.is_array() && context.size() == 2 && context[0].is_array() && context[1].is_array()) {
    return &context[0];
  }
  if (context.is_object() && context.contains("dict_context")) {
    return name_list(context.at("dict_context"));
  }
  return context.is_array() ? &context : nullptr;
}

std::string join(const std::string& path, const std::string& name) {
  return path.empty() || name.empty() ? path + name : path + "." + name;
}

// A cache's context is a dump of the object in which {"_t": "tensor", "i": 3} stands for child 3: gives each child the
// path of the attribute that holds it.
class ObjectPaths {
 public:
  explicit ObjectPaths(size_t count) : names_(count) {}

  void walk(const Json& value, const std::string& path, int depth) {
    ensure(depth <= kMaxDepth, "A container's context is nested deeper than {}", kMaxDepth);
    if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) {
        walk(value[i], join(path, std::to_string(i)), depth + 1);
      }
    } else if (value.is_object() && value.contains("_t")) {
      walk_tagged(value, path, depth);
    } else if (value.is_object()) {
      walk_members(value, path, depth);
    }
  }

  std::vector<std::string> take() {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i].empty()) {
        names_[i] = std::to_string(i);
      }
    }
    return std::move(names_);
  }

 private:
  void walk_members(const Json& object, const std::string& path, int depth) {
    for (const auto& [key, member] : object.items()) {
      walk(member, join(path, key), depth + 1);
    }
  }

  void walk_items(const Json& items, const std::string& path, int depth) {
    if (!items.is_array()) {
      return walk(items, path, depth);
    }
    for (const Json& item : items) {
      if (item.is_array() && item.size() == 2) {
        walk(item[1], join(path, item[0].is_string() ? item[0].get<std::string>() : python_json_text(item[0])),
             depth + 1);
      }
    }
  }

  void walk_tagged(const Json& value, const std::string& path, int depth) {
    const Json& tag = value["_t"];
    if ((tag == "tensor" || tag == "sym") && value.contains("i") && value["i"].is_number_unsigned()) {
      const auto index = value["i"].get<uint64_t>();
      ensure(index < names_.size(), "A container's context names its child {}, it has {}", index, names_.size());
      names_[index] = path;
    } else if (tag == "obj" && value.contains("s")) {
      walk(value["s"], path, depth + 1);
    } else if (value.contains("v")) {
      tag == "seq" || tag == "size" ? walk(value["v"], path, depth + 1) : walk_items(value["v"], path, depth + 1);
    }
  }

  std::vector<std::string> names_;
};

TreeSpec spec_from_json(const Json& json, int depth) {
  ensure(depth <= kMaxDepth, "A tree spec is nested deeper than {}", kMaxDepth);
  ensure(json.is_object() && json.contains("type") && json.contains("context") && json.contains("children_spec"),
         "A tree spec has an entry without 'type', 'context' and 'children_spec': {}", short_json_text(json));
  const Json& type = json["type"];
  const Json& context = json["context"];
  const Json& children = json["children_spec"];
  ensure(children.is_array(), "'children_spec' of a tree spec is not a list: {}", short_json_text(children));
  if (type.is_null()) {
    ensure(context.is_null() && children.empty(), "A leaf of a tree spec has a context or children: {}",
           short_json_text(json));
    return TreeSpec::leaf();
  }
  ensure(type.is_string() && !type.get_ref<const std::string&>().empty(), "The type of a tree spec is not a name: {}",
         short_json_text(type));
  TreeSpec spec;
  spec.type = type.get<std::string>();
  spec.inline_context = !context.is_string();
  spec.context = context.is_string() ? context.get<std::string>() : python_json_text(context);
  spec.children.reserve(children.size());
  for (const Json& child : children) {
    spec.children.push_back(spec_from_json(child, depth + 1));
  }
  return spec;
}

void append_spec(const TreeSpec& spec, std::string& text, int depth) {
  ensure(depth <= kMaxDepth, "A tree spec is nested deeper than {}", kMaxDepth);
  if (spec.is_leaf()) {
    text += R"({"type": null, "context": null, "children_spec": []})";
    return;
  }
  text += R"({"type": )" + json_quoted(spec.type) + R"(, "context": )";
  text += (spec.inline_context ? spec.context : json_quoted(spec.context)) + R"(, "children_spec": [)";
  for (size_t i = 0; i < spec.children.size(); ++i) {
    text += i > 0 ? ", " : "";
    append_spec(spec.children[i], text, depth + 1);
  }
  text += "]}";
}

void append_leaf_paths(const TreeSpec& spec, const std::string& path, std::vector<std::string>& paths) {
  if (spec.is_leaf()) {
    paths.push_back(path);
    return;
  }
  const std::vector<std::string> names = spec.child_names();
  for (size_t i = 0; i < names.size(); ++i) {
    append_leaf_paths(spec.children[i], join(path, names[i]), paths);
  }
}

}  // namespace

size_t TreeSpec::leaf_count() const {
  if (is_leaf()) {
    return 1;
  }
  size_t count = 0;
  for (const TreeSpec& child : children) {
    count += child.leaf_count();
  }
  return count;
}

TreeSpec TreeSpec::tuple(std::vector<TreeSpec> children) { return {"builtins.tuple", "null", std::move(children)}; }

TreeSpec TreeSpec::list(std::vector<TreeSpec> children) { return {"builtins.list", "null", std::move(children)}; }

TreeSpec TreeSpec::dict(const std::vector<std::string>& keys, std::vector<TreeSpec> children) {
  ensure(keys.size() == children.size(), "A dict has {} keys and {} values", keys.size(), children.size());
  return {"builtins.dict", python_json_text(Json(keys)), std::move(children)};
}

std::vector<std::string> TreeSpec::keys() const {
  const Json parsed = parse_context(context);
  const Json* names = name_list(parsed);
  const bool strings =
      names != nullptr && std::all_of(names->begin(), names->end(), [](const Json& n) { return n.is_string(); });
  ensure(strings, "The context of a '{}' is not a list of names: {}", type, context.substr(0, 200));
  return names->get<std::vector<std::string>>();
}

std::vector<std::string> TreeSpec::child_names() const { return child_names_of(context, children.size()); }

std::vector<std::string> TreeSpec::leaf_paths() const {
  std::vector<std::string> paths;
  append_leaf_paths(*this, "", paths);
  return paths;
}

std::string TreeSpec::dumps() const {
  std::string text = "[1, ";
  append_spec(*this, text, 1);
  return text + "]";
}

TreeSpec TreeSpec::loads(std::string_view text) {
  ensure(text.size() <= kMaxBytes, "A tree spec of {} bytes is larger than any program needs ({} at most)", text.size(),
         kMaxBytes);
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    fail("A tree spec is not JSON: {}", error.what());
  }
  ensure(json.is_array() && json.size() == 2, "A tree spec is not '[protocol, spec]': {}", short_json_text(json));
  ensure(json[0].is_number_integer() && json[0] == 1, "A tree spec has protocol {}, only 1 is known",
         short_json_text(json[0]));
  return spec_from_json(json[1], 1);
}

std::vector<std::string> child_names_of(const std::string& context, size_t count) {
  const Json parsed = parse_context(context);
  if (const Json* list = name_list(parsed)) {
    ensure(list->size() == count, "A container's context names {} children, it has {}", list->size(), count);
    std::vector<std::string> names;
    for (const Json& name : *list) {
      names.push_back(name.is_string() ? name.get<std::string>() : python_json_text(name));
    }
    return names;
  }
  ObjectPaths paths(count);
  paths.walk(parsed, "", 1);
  return paths.take();
}

}  // namespace exporters
