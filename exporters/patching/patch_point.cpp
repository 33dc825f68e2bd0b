#include "exporters/patching/patch_point.h"

#include "exporters/patching/active.h"
#include "exporters/patching/effects.h"
#include "exporters/support/error.h"
#include "exporters/support/place.h"

#include <map>
#include <mutex>

namespace exporters {
namespace {

struct Points {
  std::mutex mutex;
  std::map<std::string, const PatchPointBase*, std::less<>> by_name;
};

Points& points() {
  static Points instance;
  return instance;
}

// Deep enough for replacements that call their own op on other arguments, and far from the end of the stack.
constexpr int kDeepestCall = 64;

}  // namespace

constinit thread_local detail::ActivePatches* detail::active_patches = nullptr;

PatchPointBase::PatchPointBase(std::string name, std::type_index signature)
    : name_(std::move(name)), signature_(signature) {
  ensure(!name_.empty() && name_.find("::") == std::string::npos, "'{}' is no name for a patch point", name_);
  const std::lock_guard lock(points().mutex);
  ensure(points().by_name.emplace(name_, this).second, "two patch points are called '{}'", name_);
}

PatchPointBase::~PatchPointBase() {
  const std::lock_guard lock(points().mutex);
  points().by_name.erase(name_);
}

detail::Replacement* PatchPointBase::replacement() const {
  const auto found = detail::active_patches->functions.find(this);
  return found == detail::active_patches->functions.end() ? nullptr : found->second.back().get();
}

std::vector<std::string> patch_point_names() {
  const std::lock_guard lock(points().mutex);
  std::vector<std::string> names;
  for (const auto& [name, point] : points().by_name) {
    names.push_back(name);
  }
  return names;
}

const PatchPointBase* detail::find_patch_point(std::string_view name) {
  const std::lock_guard lock(points().mutex);
  const auto found = points().by_name.find(name);
  return found == points().by_name.end() ? nullptr : found->second;
}

detail::ReplacementCall::ReplacementCall(Replacement& replacement) : replacement_(replacement) {
  if (replacement_.depth_ >= kDeepestCall) {
    throw Error("the patch '" + replacement_.notes().name + "' of backend '" + replacement_.backend() + "' calls '" +
                    replacement_.target() + "', which it replaces, without end",
                current_place().str(), "Call the original that its factory received instead.");
  }
  ++replacement_.depth_;
}

void detail::record_call(const Replacement& replacement) {
  record_effect("patch", replacement.backend(), replacement.notes().name, {{}, current_place().module_path});
}

}  // namespace exporters
