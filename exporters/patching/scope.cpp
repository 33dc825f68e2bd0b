#include "exporters/patching/scope.h"

#include "exporters/patching/active.h"
#include "exporters/support/error.h"
#include "exporters/support/near.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <utility>

namespace exporters {
namespace {

using detail::ActivePatches;

struct OpPath {
  std::string name;                     // "aten::where"
  std::optional<std::string> overload;  // none: all of them
};

OpPath parse(const std::string& path) {
  const size_t dot = path.find('.', path.find("::"));
  if (dot == std::string::npos) {
    return {path, std::nullopt};
  }
  const std::string overload = path.substr(dot + 1);
  return {path.substr(0, dot), overload == "default" ? "" : overload};
}

std::string text(const c10::OperatorName& name) { return c10::toString(name); }

// Operators that a path names, and the names to offer where it names none.
class Operators {
 public:
  std::vector<c10::OperatorHandle> find(const std::string& path) {
    const OpPath wanted = parse(path);
    std::vector<c10::OperatorHandle> found;
    if (wanted.overload) {
      if (const auto op = c10::Dispatcher::singleton().findSchema({wanted.name, *wanted.overload})) {
        found.push_back(*op);
      }
      return found;
    }
    for (const c10::OperatorName& name : all()) {
      const auto op = name.name == wanted.name ? c10::Dispatcher::singleton().findSchema(name) : std::nullopt;
      if (op) {
        found.push_back(*op);
      }
    }
    return found;
  }

  std::string hint(const std::string& path) {
    const OpPath wanted = parse(path);
    std::vector<std::string> candidates;
    for (const c10::OperatorName& name : all()) {
      if (name.name == wanted.name) {
        candidates.push_back(text(name));
      }
    }
    if (!candidates.empty()) {  // the op is there: all its overloads are near
      std::string names;
      for (const std::string& name : candidates) {
        names += (names.empty() ? "" : ", ") + name;
      }
      return "There are: " + names + ".";
    }
    for (const c10::OperatorName& name : all()) {
      candidates.push_back(wanted.overload ? text(name) : name.name);
    }
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    return did_you_mean(path, candidates);
  }

 private:
  const std::vector<c10::OperatorName>& all() {
    if (all_.empty()) {
      all_ = c10::Dispatcher::singleton().getAllOpNames();
    }
    return all_;
  }

  std::vector<c10::OperatorName> all_;
};

[[noreturn]] void refuse(const Patch& patch, const std::string& path, const std::string& why, std::string hint = {}) {
  throw Error("the patch '" + patch.notes.name + "' for '" + patch.backend + "' cannot replace '" + path + "': " + why,
              {}, std::move(hint));
}

// Runs a factory; its error says whose it is.
template <typename Make>
auto from_factory(const Patch& patch, const std::string& path, Make make) {
  try {
    return make();
  } catch (const Error& error) {
    throw error.with_context("patch '" + patch.notes.name + "' of '" + path + "'");
  }
}

}  // namespace

class PatchScope::Installed {
 public:
  Installed() {
    if (detail::active_patches == nullptr) {
      owned_ = std::make_unique<ActivePatches>();
      detail::active_patches = owned_.get();
    }
  }

  ~Installed() {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      if (step->point != nullptr) {
        pop(detail::active_patches->functions, step->point);
      } else {
        pop(detail::active_patches->ops, *step->op);
      }
    }
    if (owned_ != nullptr) {
      detail::active_patches = nullptr;
    }
  }
  Installed(const Installed&) = delete;
  Installed& operator=(const Installed&) = delete;

  void install(const Patch& patch) {
    for (const std::string& path : patch.paths) {
      if (const auto* factory = std::get_if<OpPatch>(&patch.factory)) {
        install_on_ops(patch, path, *factory);
      } else {
        install_on_point(patch, path, std::get<FunctionPatch>(patch.factory));
      }
    }
  }

 private:
  struct Step {
    const PatchPointBase* point = nullptr;
    std::optional<c10::OperatorHandle> op;
  };

  template <typename Map, typename Key>
  static void pop(Map& map, const Key& key) {
    const auto entry = map.find(key);
    entry->second.pop_back();
    if (entry->second.empty()) {
      map.erase(entry);
    }
  }

  template <typename Map, typename Key>
  static typename Map::mapped_type::value_type top(Map& map, const Key& key) {
    const auto entry = map.find(key);
    return entry == map.end() ? nullptr : entry->second.back();
  }

  // Entered before it is listed, so that whatever is listed can be taken away.
  template <typename Map, typename Key>
  void enter(Map& map, const Key& key, typename Map::mapped_type::value_type made, Step step) {
    steps_.reserve(steps_.size() + 1);
    map[key].push_back(std::move(made));
    steps_.push_back(step);
  }

  void install_on_point(const Patch& patch, const std::string& path, const FunctionPatch& factory) {
    const PatchPointBase* point = detail::find_patch_point(path);
    if (point == nullptr) {
      if (!patch.notes.optional) {
        refuse(patch, path, "no function has that name", did_you_mean(path, patch_point_names()));
      }
      return;
    }
    if (point->signature() != factory.signature) {
      refuse(patch, path, "the replacement's signature is not that of the function");
    }
    auto& functions = detail::active_patches->functions;
    auto made = from_factory(patch, path,
                             [&] { return factory.make(*point, top(functions, point), patch.backend, patch.notes); });
    if (made == nullptr) {
      refuse(patch, path, "its factory gave no function");
    }
    enter(functions, point, std::move(made), {point, std::nullopt});
  }

  void install_on_ops(const Patch& patch, const std::string& path, const OpPatch& factory) {
    const std::vector<c10::OperatorHandle> ops = operators_.find(path);
    if (ops.empty()) {
      if (!patch.notes.optional) {
        refuse(patch, path, "libtorch has no such op", operators_.hint(path));
      }
      return;
    }
    const bool by_name = !parse(path).overload;
    std::string why_not = "its factory gave no function";
    size_t installed = 0;
    for (const c10::OperatorHandle& op : ops) {
      if (const std::string misfit = factory.misfit ? factory.misfit(op) : ""; !misfit.empty()) {
        why_not = misfit + " (" + c10::toString(op.schema()) + ")";
        continue;
      }
      installed += install_on_op(patch, path, factory, op) ? 1 : 0;
    }
    if (installed == 0) {
      refuse(patch, path, by_name ? "it takes none of the overloads: " + why_not : why_not);
    }
  }

  bool install_on_op(const Patch& patch, const std::string& path, const OpPatch& factory,
                     const c10::OperatorHandle& op) {
    auto& ops = detail::active_patches->ops;
    auto made = std::make_shared<detail::OpReplacement>(patch.backend, patch.notes, text(op.operator_name()));
    made->link = std::make_shared<detail::OpLink>(detail::OpLink{op, top(ops, op), nullptr});
    made->function = from_factory(patch, path, [&] { return factory.factory(OpOriginal(made->link)); });
    if (!made->function) {
      return false;
    }
    enter(ops, op, std::move(made), {nullptr, op});
    return true;
  }

  std::unique_ptr<ActivePatches> owned_;
  std::vector<Step> steps_;
  Operators operators_;
};

PatchScope::PatchScope(std::string_view backend) {
  const auto patches = registered_patches(backend);
  if (patches.empty()) {
    return;
  }
  installed_ = std::make_unique<Installed>();
  for (const auto& patch : patches) {
    installed_->install(*patch);
  }
}

PatchScope::~PatchScope() = default;

std::vector<c10::OperatorHandle> patched_ops() {
  std::vector<c10::OperatorHandle> result;
  if (detail::active_patches != nullptr) {
    for (const auto& [op, replacements] : detail::active_patches->ops) {
      if (!replacements.empty()) {
        result.push_back(op);
      }
    }
  }
  return result;
}

}  // namespace exporters
