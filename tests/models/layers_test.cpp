#include "exporters/models/layers/activations.h"
#include "exporters/models/layers/attention.h"
#include "exporters/models/masks.h"

#include "tests/models/recorded.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <set>

namespace exporters::models {
namespace {

using testing::error_of;
using testing::largest_difference;
using testing::reference_models;

TEST(Activations, EveryNameEqualsTheReference) {
  const auto file = SafetensorsFile::open(reference_models() / "activations.safetensors");
  const at::Tensor x = file->tensor("in");
  std::set<std::string_view> expected;
  for (const SafetensorsEntry& entry : file->entries()) {
    if (entry.name.starts_with("out.")) {
      const std::string_view name = std::string_view(entry.name).substr(4);
      expected.insert(name);
      // Values of size 12 and, for relu2, 144: float32 resolves 1e-6 and 1.5e-5.
      const double tolerance = name == "relu2" ? 2e-5 : 2e-6;
      EXPECT_LE(largest_difference(activation(name)(x), file->tensor(entry)), tolerance) << name;
    }
  }
  const auto names = activation_names();
  EXPECT_EQ(std::set<std::string_view>(names.begin(), names.end()), expected);
}

TEST(Activations, ThoseWithParametersAreRefused) {
  EXPECT_NE(error_of([] { activation("prelu"); }).find("parameters of its own"), std::string::npos);
}

at::Tensor padding() { return SafetensorsFile::open(reference_models() / "masks.safetensors")->tensor("padding"); }

// Given rows without padding, with padding on either side and of padding only, then masks hold the reference's values.
TEST(Masks, EqualTheReference) {
  const auto file = SafetensorsFile::open(reference_models() / "masks.safetensors");
  for (const auto& [kind, kind_name] : {std::pair(AttentionKind::kSdpa, "sdpa"), {AttentionKind::kEager, "eager"}}) {
    for (const auto& [dtype, dtype_name] :
         {std::pair(at::kFloat, "float32"), {at::kHalf, "float16"}, {at::kBFloat16, "bfloat16"}}) {
      const std::string name = std::string(kind_name) + "." + dtype_name;
      SCOPED_TRACE(name);
      const at::Tensor embeds = at::zeros({4, 5, 8}, dtype);
      const auto expanded = [](const at::Tensor& mask) { return mask.expand({4, 1, 5, 5}).contiguous(); };
      EXPECT_TRUE(
          expanded(create_bidirectional_mask(kind, embeds, padding(), 5)).equal(file->tensor(name + ".bidirectional")));
      EXPECT_TRUE(expanded(create_causal_mask(kind, embeds, padding()).mask).equal(file->tensor(name + ".causal")));
      EXPECT_TRUE(expanded(create_causal_mask(kind, embeds, {}, {.position_ids = file->tensor("positions")}).mask)
                      .equal(file->tensor(name + ".packed")));
    }
  }
}

TEST(Masks, NoneIsMadeWhereNothingIsHidden) {
  const at::Tensor embeds = at::zeros({2, 3, 4});
  EXPECT_FALSE(create_bidirectional_mask(AttentionKind::kSdpa, embeds, {}, 3).defined());
  const CausalMask causal = create_causal_mask(AttentionKind::kSdpa, embeds, {});
  EXPECT_FALSE(causal.mask.defined());
  EXPECT_TRUE(causal.is_causal);
}

TEST(Masks, QueriesAfterACacheSeeItAndEachOther) {
  const CausalMask causal =
      create_causal_mask(AttentionKind::kSdpa, at::zeros({1, 2, 4}), {}, {.span = CacheSpan::after(3, 2)});
  EXPECT_FALSE(causal.is_causal);
  const at::Tensor expected = at::arange(5).unsqueeze(0).le(at::arange(3, 5).unsqueeze(1)).unsqueeze(0).unsqueeze(0);
  EXPECT_TRUE(causal.mask.equal(expected));
  EXPECT_NE(
      error_of([] {
        create_causal_mask(AttentionKind::kSdpa, at::zeros({4, 2, 4}), padding(), {.span = CacheSpan::after(2, 2)});
      }).find("make it [4, 4]"),
      std::string::npos);
}

TEST(Masks, APreparedMaskIsTakenAsItIs) {
  const at::Tensor mask = at::rand({2, 1, 3, 3});
  const at::Tensor embeds = at::zeros({2, 3, 4});
  EXPECT_TRUE(create_bidirectional_mask(AttentionKind::kEager, embeds, mask, 3).is_same(mask));
  EXPECT_TRUE(create_causal_mask(AttentionKind::kEager, embeds, mask).mask.is_same(mask));
  EXPECT_NE(error_of([&] { create_bidirectional_mask(AttentionKind::kSdpa, embeds, mask[0], 3); }).find("3 dimensions"),
            std::string::npos);
}

// Nothing is defined for a query that sees no key; what comes out is finite and the same as in the reference.
TEST(Attention, AQueryWithoutKeysGetsZerosFromSdpaAndTheMeanFromEager) {
  const at::Tensor query = at::rand({1, 2, 3, 8});
  const at::Tensor value = at::rand({1, 2, 3, 8});
  const at::Tensor embeds = at::zeros({1, 3, 16});
  const auto run = [&](AttentionKind kind) {
    const at::Tensor mask = create_bidirectional_mask(kind, embeds, at::zeros({1, 3}, at::kLong), 3);
    return attention(kind, query, query, value, mask, 0.5).output;
  };
  EXPECT_TRUE(run(AttentionKind::kSdpa).eq(0).all().item().toBool());
  const at::Tensor mean = value.mean(2, /*keepdim=*/true).expand({1, 2, 3, 8}).transpose(1, 2).flatten(2);
  EXPECT_LE(largest_difference(run(AttentionKind::kEager), mean), 1e-6);
}

// Both ways to attend are the same sum; float32 with scores of size 10 leaves 1e-5.
TEST(Attention, EagerAndSdpaAgree) {
  const at::Tensor query = at::rand({2, 3, 5, 8});
  const at::Tensor key = at::rand({2, 3, 5, 8});
  const at::Tensor value = at::rand({2, 3, 5, 8});
  const at::Tensor embeds = at::zeros({2, 5, 24});
  const at::Tensor rows = padding().slice(0, 1, 3);
  const auto run = [&](AttentionKind kind) {
    return attention(kind, query, key, value, create_causal_mask(kind, embeds, rows).mask, 0.5);
  };
  const at::Tensor sdpa = run(AttentionKind::kSdpa).output;
  const AttentionResult eager = run(AttentionKind::kEager);
  EXPECT_EQ(sdpa.sizes(), (std::vector<int64_t>{2, 5, 24}));
  // The second row's first two queries see no key.
  EXPECT_LE(largest_difference(eager.output[0], sdpa[0]), 1e-5);
  EXPECT_LE(largest_difference(eager.output[1].slice(0, 2), sdpa[1].slice(0, 2)), 1e-5);
  EXPECT_EQ(eager.probabilities.sizes(), (std::vector<int64_t>{2, 3, 5, 5}));
}

}  // namespace
}  // namespace exporters::models
