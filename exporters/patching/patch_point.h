#pragma once

#include "exporters/patching/replacement.h"

#include <functional>
#include <memory>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

namespace exporters {

/// A named function that patches can replace. Not for use: see PatchPoint.
class PatchPointBase {
 public:
  /// Throws Error for a name that is taken or looks like an operator's.
  PatchPointBase(std::string name, std::type_index signature);
  ~PatchPointBase();
  PatchPointBase(const PatchPointBase&) = delete;
  PatchPointBase& operator=(const PatchPointBase&) = delete;

  const std::string& name() const { return name_; }
  std::type_index signature() const { return signature_; }

 protected:
  /// The replacement in force on this thread, or null.
  detail::Replacement* replacement() const;

 private:
  std::string name_;
  std::type_index signature_;
};

/// Names of all patch points, sorted.
std::vector<std::string> patch_point_names();

template <typename Signature>
class PatchPoint;

/// A function or method that someone may want to swap for the time of an export, declared where the function lives:
///
///     at::Tensor cast_classifier(const Router& router, const at::Tensor& hidden);  // the original
///     const PatchPoint<at::Tensor(const Router&, const at::Tensor&)> cast("models.nllb_moe.cast_classifier",
///                                                                         cast_classifier);
///
/// Callers call the point. Where no patch is in force on their thread, that costs one test and an indirect call. The
/// point is an object that its callers use, so a linker that keeps them keeps its name too.
template <typename Result, typename... Args>
class PatchPoint<Result(Args...)> : public PatchPointBase {
 public:
  using Original = Result (*)(Args...);
  using Function = std::function<Result(Args...)>;

  PatchPoint(std::string name, Original original)
      : PatchPointBase(std::move(name), typeid(Result(Args...))), original_(original) {}

  Result operator()(Args... args) const {
    if (detail::active_patches != nullptr) {
      if (detail::Replacement* found = replacement()) {
        return call(*found, std::forward<Args>(args)...);
      }
    }
    return original_(std::forward<Args>(args)...);
  }

  struct FunctionReplacement : detail::Replacement {
    using detail::Replacement::Replacement;
    Function function;
  };
  /// What the factory of the next patch on this point gets as the original.
  Function callable(std::shared_ptr<detail::Replacement> below) const {
    if (below == nullptr) {
      return original_;
    }
    return [below = std::move(below)](Args... args) -> Result { return call(*below, std::forward<Args>(args)...); };
  }

 private:
  static Result call(detail::Replacement& replacement, Args... args) {
    const detail::ReplacementCall guard(replacement);
    detail::record_call(replacement);
    return static_cast<FunctionReplacement&>(replacement).function(std::forward<Args>(args)...);
  }

  Original original_;
};

}  // namespace exporters
