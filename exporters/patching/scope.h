#pragma once

#include "exporters/patching/registry.h"

#include <memory>
#include <string_view>
#include <vector>

namespace exporters {

/// The patches of a backend, in force on this thread for the lifetime of the object. They are installed in the order of
/// their registration and taken away in reverse, also when an exception leaves the scope or a factory throws half-way.
/// Scopes nest, the later destroyed first; a target that is patched twice gets the later replacement around the earlier
/// one. Other threads see nothing of it.
class [[nodiscard]] PatchScope {
 public:
  explicit PatchScope(std::string_view backend);
  ~PatchScope();
  PatchScope(const PatchScope&) = delete;
  PatchScope& operator=(const PatchScope&) = delete;

 private:
  class Installed;
  std::unique_ptr<Installed> installed_;
};

/// Throws Error for a path that names nothing, with the nearest names, unless its patch is optional; for a factory
/// whose signature does not fit the target; and what a factory throws.
inline PatchScope apply_patches(std::string_view backend) { return PatchScope(backend); }

/// The torch ops that a patch replaces on this thread.
std::vector<c10::OperatorHandle> patched_ops();

}  // namespace exporters
