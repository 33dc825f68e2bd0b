#pragma once

#include "exporters/patching/op_patch.h"
#include "exporters/patching/patch_point.h"
#include "exporters/patching/replacement.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <variant>
#include <vector>

namespace exporters {

/// The factory of patches of functions and methods, for points of one signature.
struct FunctionPatch {
  std::type_index signature;
  std::function<std::shared_ptr<detail::Replacement>(
      const PatchPointBase& point, std::shared_ptr<detail::Replacement> below, std::string backend, PatchNotes notes)>
      make;
};

/// A patch of a PatchPoint<Signature>: `factory` takes and gives a std::function<Signature>.
template <typename Signature, typename Factory>
FunctionPatch function_patch(Factory factory) {
  return {
      typeid(Signature),
      [factory = std::move(factory)](const PatchPointBase& base, std::shared_ptr<detail::Replacement> below,
                                     std::string backend, PatchNotes notes) -> std::shared_ptr<detail::Replacement> {
        using Point = PatchPoint<Signature>;
        const auto& point = static_cast<const Point&>(base);
        auto made =
            std::make_shared<typename Point::FunctionReplacement>(std::move(backend), std::move(notes), point.name());
        made->function = factory(point.callable(std::move(below)));
        return made->function ? made : nullptr;
      }};
}

using PatchFactory = std::variant<OpPatch, FunctionPatch>;

/// A registered patch.
struct Patch {
  std::string backend;
  std::vector<std::string> paths;
  PatchFactory factory;
  PatchNotes notes;

  bool is_op_patch() const { return std::holds_alternative<OpPatch>(factory); }
};

/// Adds a patch to a backend: a format ("onnx") or a format and a target ("executorch.xnnpack"). A path is a torch op
/// ("aten::where.self", or "aten::where" for all its overloads) or the name of a PatchPoint; all paths share the
/// factory. Thread-safe; takes effect for scopes made from then on. Throws Error without paths, without a reason, and
/// for paths of the other kind than the factory.
void register_patch(std::string_view backend, std::vector<std::string> paths, PatchFactory factory, PatchNotes notes);

/// The patches of a backend in the order they are installed: for "executorch.xnnpack" those of "executorch", then its
/// own.
std::vector<std::shared_ptr<const Patch>> registered_patches(std::string_view backend);

/// "executorch", "executorch.xnnpack" for "executorch.xnnpack": whose patches and fixes a backend uses, in this order.
std::vector<std::string> backend_chain(std::string_view backend);

}  // namespace exporters
