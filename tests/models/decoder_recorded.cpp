#include "tests/models/decoder_recorded.h"

#include "exporters/models/registry.h"
#include "tests/models/recorded.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

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
  if (path.starts_with("image_outputs.") || path.find("conv_states.") != std::string::npos ||
      path.find("recurrent_states.") != std::string::npos) {
    return std::nullopt;  // patches; states that a sequence leaves behind
  }
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

// In a model with an encoder, attention_mask is the encoder's.
at::Tensor DecoderCall::mask_of(const std::string& path, const PyTree& output) const {
  const bool has_encoder = output.find("encoder_last_hidden_state") != nullptr;
  const bool is_encoders = path.starts_with("encoder_") || path.find("cross_attention_cache") != std::string::npos;
  return args.tensor(has_encoder && !is_encoders ? "decoder_attention_mask" : "attention_mask");
}

void DecoderCall::expect(const PyTree& output, double tolerance) const {
  EXPECT_EQ(output.spec().dumps(), out_spec);
  const std::vector<std::string> paths = output.spec().leaf_paths();
  const std::vector<PyTree::Leaf> actual = output.flatten();
  ASSERT_EQ(actual.size(), leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    const std::string& path = paths[i];
    if (std::holds_alternative<std::monostate>(actual[i])) {
      EXPECT_EQ(leaves[i].numel(), 0) << path;
      continue;
    }
    const at::Tensor& tensor = std::get<at::Tensor>(actual[i]);
    const at::Tensor mask = mask_of(path, output);
    ASSERT_EQ(tensor.sizes(), leaves[i].sizes()) << path;
    // Of values beyond 1, such as scaled logits, the tolerance is relative: rounding grows with the value.
    const at::Tensor expected = only_visible(leaves[i], mask, path);
    const double largest = expected.numel() == 0 ? 0 : at::max(expected.to(at::kDouble).abs()).item().toDouble();
    EXPECT_LE(largest_difference(only_visible(tensor, mask, path), expected), tolerance * std::max(1.0, largest))
        << path << ", whose largest value is " << largest;
  }
}

std::set<std::string> heads_made(const std::filesystem::path& folder) {
  std::set<std::string> made;
  for (const std::filesystem::path& checkpoint : checkpoints(folder)) {
    const std::string name = checkpoint.filename().string();
    made.insert(name.substr(0, name.find('_')));
  }
  return made;
}

std::set<std::string> heads_listed(std::string_view model_type) {
  std::set<std::string> listed;
  for (const models::ModelEntry& entry : models::list()) {
    if (entry.model_type == model_type) {
      listed.emplace(entry.architecture);
    }
  }
  return listed;
}

void expect_state(const models::PreTrainedModel& model, const std::filesystem::path& folder) {
  const auto expected = nlohmann::json::parse(std::ifstream(folder / "state.json"));
  std::vector<std::string> parameters;
  std::vector<std::string> buffers;
  for (const models::StateEntry& entry : model.state()) {
    EXPECT_TRUE(entry.tensor.defined()) << entry.name;
    (entry.is_buffer ? buffers : parameters).push_back(entry.name);
  }
  EXPECT_EQ(parameters, expected.at("parameters").get<std::vector<std::string>>());
  EXPECT_EQ(buffers, expected.at("buffers").get<std::vector<std::string>>());
}

void expect_sample_runs(const models::PreTrainedModel& model, const models::SampleSize& size) {
  const models::ForwardArgs sample = model.sample_inputs(size);
  EXPECT_EQ(sample.has("cache"), size.past > 0);
  EXPECT_NO_THROW(model(sample));
  const models::AxisNames names = model.axis_names(size.past > 0);
  for (const auto& [name, value] : sample) {
    for (const auto& [path, tensor] : value.tensors()) {
      const std::string full = path.empty() ? name : name + "." + path;
      EXPECT_EQ(names.contains(full), tensor.dim() > 0) << full;
    }
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

size_t expect_recorded_calls(const std::filesystem::path& folder) {
  constexpr double kFloat32 = 1e-5;
  constexpr double kBFloat16 = 2 * 4.0 / 256;  // which keeps 8 bits
  size_t count = 0;
  for (const std::filesystem::path& checkpoint : checkpoints(folder)) {
    SCOPED_TRACE(checkpoint.filename().string());
    const auto model = models::load(checkpoint);
    EXPECT_TRUE(checkpoint.filename().string().starts_with(model->class_name() + "_"));
    EXPECT_TRUE(model->load_report().surplus_keys.empty());
    const bool is_half = model->load_report().dtype == at::kBFloat16;
    for (const std::filesystem::path& file : recordings(checkpoint)) {
      SCOPED_TRACE(file.filename().string());
      const DecoderCall call(file);
      call.expect((*model)(call.args), is_half ? kBFloat16 : kFloat32);
      ++count;
    }
  }
  return count;
}

}  // namespace exporters::testing
