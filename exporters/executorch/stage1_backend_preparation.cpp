// ── Stage 1: Backend preparation ──
//
// Before the trace, the target (config field "backend") says on which device, in which dtype and layout the model and
// its sample inputs are, and which partitioner chooses what a delegate runs: the table `backend_prepare`. To extend:
// register_executorch_backend(name, recipe).

#include "exporters/executorch/stages.h"
#include "exporters/executorch/xnnpack/partitioner.h"
#include "exporters/graph/deferred_tensor.h"
#include "exporters/support/error.h"
#include "exporters/support/near.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

namespace exporters::executorch {
namespace {

// ── The table ──

struct Recipes {
  std::mutex mutex;
  std::map<std::string, ExecutorchRecipe, std::less<>> by_name;
};

Recipes& backend_prepare() {
  static Recipes instance;
  return instance;
}

constexpr auto kBuiltIn = std::to_array<std::string_view>({"xnnpack", "portable", "cuda"});

bool is_built_in(std::string_view name) { return std::find(kBuiltIn.begin(), kBuiltIn.end(), name) != kBuiltIn.end(); }

// ── Inputs ──

template <typename Change>
PyTree map_tensors(const PyTree& tree, const Change& change) {
  std::vector<PyTree::Leaf> leaves = tree.flatten();
  for (PyTree::Leaf& leaf : leaves) {
    if (auto* tensor = std::get_if<at::Tensor>(&leaf)) {
      *tensor = change(*tensor);
    }
  }
  return PyTree::unflatten(tree.spec(), std::move(leaves));
}

template <typename Change>
void change_inputs(NamedInputs& inputs, const Change& change) {
  for (auto& [name, value] : inputs) {
    value = map_tensors(value, change);
  }
}

at::Tensor in_bfloat16(const at::Tensor& tensor, const std::optional<WeightSource>& source) {
  if (!tensor.defined() || !c10::isFloatingType(tensor.scalar_type()) || tensor.scalar_type() == at::kBFloat16) {
    return tensor;
  }
  const bool lies_in_file = source && tensor.is_contiguous() && source->nbytes == tensor.nbytes();
  return lies_in_file ? defer_conversion(*source, tensor.scalar_type(), tensor.sizes(), at::kBFloat16)
                      : tensor.to(at::kBFloat16);
}

Program refuse_cuda(ExportedProgram) {
  throw Error(
      "ExecuTorch's CUDA backend has no lowering here", "backend 'cuda'",
      "Its kernels are compiled by AOTInductor, which needs Python and a GPU. register_executorch_lowering(\"cuda\", "
      "…) adds one; xnnpack and portable need none.");
}

}  // namespace

void prepare_for_xnnpack(ExportSource&, NamedInputs& inputs) {
  change_inputs(inputs, [](const at::Tensor& tensor) { return tensor.cpu().contiguous(); });
}

void prepare_for_cuda(ExportSource& model, NamedInputs& inputs) {
  for (TracedState& entry : model.state) {
    at::Tensor converted = in_bfloat16(entry.tensor, entry.source);
    if (!converted.is_same(entry.tensor)) {
      entry.source.reset();
    }
    entry.tensor = std::move(converted);
  }
  change_inputs(inputs, [](const at::Tensor& tensor) { return in_bfloat16(tensor, std::nullopt).contiguous(); });
}

void register_executorch_backend(std::string name, ExecutorchRecipe recipe, bool overwrite) {
  ensure(!name.empty(), "a backend of ExecuTorch has a name");
  Recipes& all = backend_prepare();
  const std::lock_guard lock(all.mutex);
  if (is_built_in(name) && all.by_name.contains(name)) {
    throw Error("'" + name + "' is built in", {}, "Register the backend under another name.");
  }
  if (all.by_name.contains(name) && !overwrite) {
    throw Error("there is a backend '" + name + "' already", {}, "Pass overwrite to replace it.");
  }
  all.by_name.insert_or_assign(std::move(name), std::move(recipe));
}

void register_executorch_lowering(std::string_view name, std::function<Program(ExportedProgram program)> lower) {
  Recipes& all = backend_prepare();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_name.find(name);
  ensure(found != all.by_name.end(), "there is no backend '{}' of ExecuTorch to lower for", name);
  found->second.lower = std::move(lower);
}

ExecutorchRecipe executorch_recipe(std::string_view name) {
  std::vector<std::string> known = executorch_backends();
  Recipes& all = backend_prepare();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_name.find(name);
  if (found == all.by_name.end()) {
    const std::vector<std::string_view> names(known.begin(), known.end());
    throw Error("ExecuTorch has no backend '" + std::string(name) + "' here", {}, suggest(name, names));
  }
  return found->second;
}

std::vector<std::string> executorch_backends() {
  Recipes& all = backend_prepare();
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> names;
  for (const auto& [name, recipe] : all.by_name) {
    names.push_back(name);
  }
  return names;
}

void register_backend_recipes() {
  register_executorch_backend("xnnpack", {.what = "float32 parts run by XNNPACK, the rest by ExecuTorch's own kernels",
                                          .prepare = prepare_for_xnnpack,
                                          .partitioner = std::make_shared<xnnpack::XnnpackPartitioner>()});
  register_executorch_backend("portable",
                              {.what = "everything run by ExecuTorch's own kernels", .prepare = prepare_for_xnnpack});
  register_executorch_backend("cuda", {.what = "bfloat16 for ExecuTorch's CUDA backend; needs a lowering from outside",
                                       .prepare = prepare_for_cuda,
                                       .lower = refuse_cuda});
}

Stage backend_preparation_stage() {
  Stage stage = {
      1,
      "Backend preparation",
      "The target (config field `backend`) prepares the model and its sample inputs, and brings the partitioner that "
      "chooses what a delegate runs.",
      "`register_executorch_backend(name, recipe)`; see docs/adding_a_backend.md.",
      {}};
  for (const std::string& name : executorch_backends()) {
    stage.entries.push_back({"backend", name, {}, executorch_recipe(name).what, {}});
  }
  return stage;
}

}  // namespace exporters::executorch
