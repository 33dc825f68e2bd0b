#include "tests/models/decoder_recorded.h"

#include "tests/models/recorded.h"

#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace exporters::testing {
namespace {

PyTree flag_value(const nlohmann::json& value) {
  return value.is_boolean() ? PyTree(value.get<bool>()) : PyTree(value.get<int64_t>());
}

PyTree cache_argument(const SafetensorsFile& file, const std::string& name, const std::string& text) {
  const TreeSpec spec = TreeSpec::loads(text);
  std::vector<PyTree::Leaf> leaves;
  for (size_t i = 0; i < spec.leaf_count(); ++i) {
    leaves.emplace_back(file.tensor(fmt::format("in.{}.{}", name, i)));
  }
  return PyTree::unflatten(spec, std::move(leaves));
}

// The axis of an output along which it has one entry a token; nothing for those that have none.
std::optional<int64_t> token_axis(const std::string& path, const at::Tensor& leaf) {
  if (leaf.dim() == 4) {
    return 2;  // keys, values: [batch, heads, tokens, head_dim]; attentions: [batch, heads, queries, keys]
  }
  if (leaf.dim() == 3) {
    return 1;
  }
  return path.ends_with("_logits") && leaf.dim() == 2 ? std::optional<int64_t>(1) : std::nullopt;
}

// Zeros at tokens that the mask hides. Outputs hold the last tokens of the mask, in a static cache the first.
at::Tensor only_visible(const at::Tensor& leaf, const at::Tensor& mask, const std::string& path) {
  const auto axis = token_axis(path, leaf);
  if (!axis || !mask.defined() || mask.dim() != 2) {
    return leaf;
  }
  const int64_t tokens = leaf.size(*axis);
  at::Tensor visible;
  if (tokens <= mask.size(1)) {
    visible = mask.slice(1, mask.size(1) - tokens);
  } else {
    visible = mask.new_ones({mask.size(0), tokens});
    visible.slice(1, 0, mask.size(1)).copy_(mask);
  }
  std::vector<int64_t> shape(static_cast<size_t>(leaf.dim()), 1);
  shape[0] = mask.size(0);
  shape[static_cast<size_t>(*axis)] = tokens;
  return at::where(visible.to(at::kBool).reshape(shape), leaf, at::zeros_like(leaf));
}

}  // namespace

DecoderCall::DecoderCall(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  const auto specs = nlohmann::json::parse(file->metadata().at("in_specs"));
  for (const auto& [name, spec] : specs.items()) {
    args.set(name, cache_argument(*file, name, spec.get<std::string>()));
  }
  for (const SafetensorsEntry& entry : file->entries()) {
    const bool is_leaf = std::count(entry.name.begin(), entry.name.end(), '.') > 1;
    if (entry.name.starts_with("in.") && !is_leaf) {
      args.set(entry.name.substr(3), file->tensor(entry));
    }
  }
  const auto flags = nlohmann::json::parse(file->metadata().at("flags"));
  for (const auto& [name, value] : flags.items()) {
    args.set(name, flag_value(value));
  }
  out_spec = file->metadata().at("out_spec");
  for (size_t i = 0; i < TreeSpec::loads(out_spec).leaf_count(); ++i) {
    leaves.push_back(file->tensor(fmt::format("out.{}", i)));
  }
}

void DecoderCall::expect(const PyTree& output, double tolerance) const {
  EXPECT_EQ(output.spec().dumps(), out_spec);
  const auto tensors = output.tensors();
  ASSERT_EQ(tensors.size(), leaves.size());
  const at::Tensor mask = args.tensor("attention_mask");
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto& [path, tensor] = tensors[i];
    ASSERT_EQ(tensor.sizes(), leaves[i].sizes()) << path;
    EXPECT_LE(largest_difference(only_visible(tensor, mask, path), only_visible(leaves[i], mask, path)), tolerance)
        << path;
  }
}

std::filesystem::path reference_decoders() { return reference_folder("decoders"); }

std::vector<std::filesystem::path> checkpoints(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (std::filesystem::exists(entry.path() / "config.json")) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace exporters::testing
