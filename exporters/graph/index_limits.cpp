#include "exporters/graph/index_limits.h"

#include "exporters/support/error.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace exporters {
namespace {

// Ops whose result holds all the values of their first argument and no others.
constexpr std::array<std::string_view, 14> kSameValues = {
    "aten.view.default",       "aten.reshape.default", "aten.flatten.using_ints", "aten.unflatten.int",
    "aten.squeeze.default",    "aten.squeeze.dim",     "aten.squeeze.dims",       "aten.unsqueeze.default",
    "aten.transpose.int",      "aten.t.default",       "aten.permute.default",    "aten.clone.default",
    "aten.contiguous.default", "aten.alias.default"};
// The same if the result is int64.
constexpr std::array<std::string_view, 2> kConversions = {"aten.to.dtype", "aten._to_copy.default"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& ops, const Node& node) {
  return std::find(ops.begin(), ops.end(), node.target()) != ops.end();
}

bool keeps_values(const Node& node) {
  return contains(kSameValues, node) || (contains(kConversions, node) && node.output()->meta().dtype == c10::kLong);
}

// The placeholder whose values these are, or nullptr.
const Value* origin(const Value* value) {
  while (!value->node()->is_placeholder() && keeps_values(*value->node()) && value->node()->args()[0].is_value()) {
    value = value->node()->args()[0].value();
  }
  return value->node()->is_placeholder() ? value : nullptr;
}

template <typename T>
void check_values(const std::string& input, const at::Tensor& indices, const IndexLimit& limit) {
  const T* values = indices.const_data_ptr<T>();
  const T* end = values + indices.numel();
  // Negative values are large ones here, so one comparison does; the loop is vectorized.
  uint64_t largest = 0;
  for (const T* value = values; value != end; ++value) {
    largest = std::max(largest, static_cast<uint64_t>(int64_t{*value}));
  }
  if (values == end || largest < static_cast<uint64_t>(limit.limit)) {
    return;
  }
  const T* wrong = std::find_if(values, end, [&](T value) { return value < 0 || int64_t{value} >= limit.limit; });
  throw Error(fmt::format("contains {}, the model takes 0 to {} ({})", *wrong, limit.limit - 1, limit.note),
              "argument \"" + input + "\"");
}

}  // namespace

void check_indices(const std::string& input, const at::Tensor& indices, const IndexLimit& limit) {
  if (!indices.defined() || !indices.is_cpu() || indices.layout() != c10::kStrided) {
    return;
  }
  const at::Tensor dense = indices.contiguous();
  if (dense.scalar_type() == c10::kLong) {
    check_values<int64_t>(input, dense, limit);
  } else if (dense.scalar_type() == c10::kInt) {
    check_values<int32_t>(input, dense, limit);
  }
}

IndexLimits embedding_limits(const ExportedProgram& program) {
  std::map<std::string, std::string> paths;  // placeholder → input path
  for (const LeafInfo& leaf : program.input_leaves()) {
    paths[leaf.placeholder] = leaf.path;
  }
  IndexLimits limits;
  for (const Node& node : *program.graph) {
    if (!node.is_call("aten.embedding.default") || !node.args()[0].is_value() || !node.args()[1].is_value()) {
      continue;
    }
    const Value* table = node.args()[0].value();
    const Value* input = origin(node.args()[1].value());
    const auto path = input == nullptr ? paths.end() : paths.find(input->name());
    const auto rows = table->meta().sizes.at(0).as_int();
    if (path == paths.end() || !rows) {
      continue;
    }
    const InputSpec* spec = table->node()->is_placeholder() ? program.signature.find_input(table->name()) : nullptr;
    const std::string name = spec == nullptr || spec->target.empty() ? table->name() : spec->target;
    const auto [known, is_new] = limits.emplace(path->second, IndexLimit{*rows, "rows of " + name});
    if (!is_new && *rows < known->second.limit) {
      known->second = {*rows, "rows of " + name};
    }
  }
  return limits;
}

}  // namespace exporters
