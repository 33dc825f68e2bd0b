#include "exporters/patching/registry.h"

#include "exporters/support/error.h"

#include <mutex>

namespace exporters {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<const Patch>> patches;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

bool is_op(std::string_view path) { return path.find("::") != std::string_view::npos; }

}  // namespace

void register_patch(std::string_view backend, std::vector<std::string> paths, PatchFactory factory, PatchNotes notes) {
  ensure(!backend.empty(), "a patch belongs to a backend");
  ensure(!paths.empty(), "a patch for '{}' has no paths", backend);
  if (notes.name.empty()) {
    notes.name = paths.front();
  }
  ensure(!notes.reason.empty(), "the patch '{}' for '{}' gives no reason", notes.name, backend);
  auto patch =
      std::make_shared<Patch>(Patch{std::string(backend), std::move(paths), std::move(factory), std::move(notes)});
  for (const std::string& path : patch->paths) {
    ensure(is_op(path) == patch->is_op_patch(), "the patch '{}' for '{}' replaces {}, and '{}' is {}",
           patch->notes.name, backend, patch->is_op_patch() ? "torch ops" : "functions", path,
           is_op(path) ? "a torch op" : "none");
  }
  const std::lock_guard lock(registry().mutex);
  registry().patches.push_back(std::move(patch));
}

std::vector<std::string> backend_chain(std::string_view backend) {
  std::vector<std::string> chain;
  for (size_t dot = backend.find('.'); dot != std::string_view::npos; dot = backend.find('.', dot + 1)) {
    chain.emplace_back(backend.substr(0, dot));
  }
  chain.emplace_back(backend);
  return chain;
}

std::vector<std::shared_ptr<const Patch>> registered_patches(std::string_view backend) {
  const std::lock_guard lock(registry().mutex);
  std::vector<std::shared_ptr<const Patch>> found;
  for (const std::string& each : backend_chain(backend)) {
    for (const auto& patch : registry().patches) {
      if (patch->backend == each) {
        found.push_back(patch);
      }
    }
  }
  return found;
}

}  // namespace exporters
