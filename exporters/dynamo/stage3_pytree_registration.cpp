// ── Stage 3: Pytree registration ──
//
// A forward takes and returns nested values: lists, tuples, dicts, ModelOutputs, caches, types of a user. In a program
// they are flat: leaves in a fixed order, and a tree spec with each container's type and a JSON context, which holds
// all of it that is no leaf. The specs are the reference's, so that Python builds its own objects of the same classes.
//
// Lists, tuples and dicts need no entry, nor do ModelOutputs: their context is the list of their fields. Every other
// type has an entry with two functions, `flatten_to_context` and `unflatten_from_context`.
//
// To extend: register_pytree_node<T>(types, flatten_to_context, unflatten_from_context), below for the library's own
// types, or in your code before the export (exporters/framework/pytree_nodes.h).
#include "exporters/dynamo/stages.h"

#include "exporters/framework/pytree_nodes.h"
#include "exporters/models/cache.h"

#include <mutex>

namespace exporters {

void register_cache_pytrees() {
  using CachePointer = std::shared_ptr<models::Cache>;
  static std::once_flag once;
  std::call_once(once, [] {
    register_pytree_node<CachePointer>(
        {"transformers.cache_utils:DynamicCache", "transformers.cache_utils:StaticCache",
         "transformers.cache_utils:EncoderDecoderCache"},
        [](const CachePointer& cache) { return cache->to_tree(); },
        [](const PyTree& tree) -> CachePointer { return models::Cache::from_tree(tree); },
        "keys and values of earlier tokens");
  });
}

}  // namespace exporters
