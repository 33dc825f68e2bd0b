// Caches that GroupQueryAttention appends to: past and present in one buffer, which stays where it is over a
// generation.
#include "exporters/onnx/cache_buffer.h"
#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/in_place.h"
#include "tests/onnx/exported.h"
#include "tests/onnx/support.h"
#include "tests/reference/generation_export.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <mutex>

namespace exporters::onnx {
namespace {

using namespace testing;
namespace fs = std::filesystem;
using exporters::testing::GenerationCase;
using exporters::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ── Buffers ──

TEST(CacheBuffer, BeginsWithTheStates) {
  const at::Tensor states = at::randn({2, 3, 4, 8});
  const at::Tensor buffer = with_room(states, 10);
  EXPECT_EQ(buffer.sizes(), (at::IntArrayRef{2, 3, 10, 8}));
  const at::Tensor first = first_places(buffer, 4);
  EXPECT_EQ(first.const_data_ptr(), buffer.const_data_ptr());
  EXPECT_TRUE(at::equal(first, states));
  EXPECT_EQ(first_places(buffer, 10).sizes(), buffer.sizes());  // the room behind the states is not filled
}

TEST(CacheBuffer, IsFoundByItsFirstPlacesAlone) {
  const at::Tensor states = at::randn({1, 2, 4, 8});
  at::Tensor first = first_places(with_room(states, 10), 4);
  const at::Tensor found = buffer_of(first);
  ASSERT_TRUE(found.defined());
  EXPECT_EQ(found.sizes(), (at::IntArrayRef{1, 2, 10, 8}));
  EXPECT_EQ(found.const_data_ptr(), first.const_data_ptr());
  EXPECT_FALSE(buffer_of(first).defined());  // `found` reaches the room
  // Without room it is its own buffer.
  const at::Tensor whole = at::randn({1, 2, 4, 8});
  EXPECT_EQ(buffer_of(whole).size(2), 4);
}

TEST(CacheBuffer, IsNoOthersMemory) {
  at::Tensor all = at::randn({2, 2, 10, 8});
  EXPECT_FALSE(buffer_of(all.slice(2, 0, 4)).defined());                    // `all` is still there
  EXPECT_FALSE(buffer_of(at::randn({2, 2, 10, 8}).slice(2, 2)).defined());  // not the first places
  EXPECT_FALSE(buffer_of(at::randn({2, 3, 10, 8}).slice(1, 0, 2)).defined());
  EXPECT_FALSE(buffer_of(at::randn({3, 2, 10, 8}).slice(0, 0, 2)).defined());
  EXPECT_FALSE(buffer_of(at::randn({2, 10, 2, 8}).transpose(1, 2)).defined());
  EXPECT_FALSE(buffer_of(at::randn({2, 2, 0, 8})).defined());
  EXPECT_FALSE(buffer_of(at::randn({2, 8})).defined());
}

// ── Decode steps ──

// One layer's step: the mask of tokens is [batch, past and new], keys and values have 2 heads, queries 4.
struct Step {
  at::Tensor mask, keys, values, query, key, value;

  Tensors outputs() const {
    for (const at::Tensor* states : {&keys, &values, &query, &key, &value}) {
      for (const int64_t axis : {1, 3}) {
        states->sym_size(axis).guard_int(__FILE__, __LINE__);
      }
    }
    at::add(keys, values);  // of one length
    at::add(key, value);
    at::add(query.sum(1), key.sum(1));
    const at::Tensor all_keys = at::cat({keys, key}, 2);
    const at::Tensor all_values = at::cat({values, value}, 2);
    const c10::SymInt past = keys.sym_size(2);
    const auto places = [](const c10::SymInt& from, const c10::SymInt& to) {
      return at::arange(from, to, at::TensorOptions().dtype(at::kLong)).unsqueeze(0);
    };
    const at::Tensor causal = at::le(places(0, all_keys.sym_size(2)).unsqueeze(1).unsqueeze(2),
                                     places(past, past + query.sym_size(2)).unsqueeze(1).unsqueeze(3));
    const at::Tensor visible =
        mask.defined() ? at::bitwise_and(causal, mask.to(at::kBool).unsqueeze(1).unsqueeze(1)) : causal;
    return {at::scaled_dot_product_attention(query, all_keys, all_values, visible, 0.0, false, 0.4, true), all_keys,
            all_values};
  }
};

Step random_step(int64_t batch, int64_t queries, int64_t past) {
  const auto states = [&](int64_t heads, int64_t length) { return at::randn({batch, heads, length, 8}); };
  at::Tensor mask = at::ones({batch, past + queries}, at::kLong);
  if (batch > 1) {
    mask.select(0, 0).slice(0, 0, 2).fill_(0);
  }
  return {mask, states(2, past), states(2, past), states(4, queries), states(2, queries), states(2, queries)};
}

enum class Order { kMaskFirst, kCacheFirst, kNoMask };

Tensors in_order(const Step& step, Order order) {
  Tensors tensors = {step.keys, step.values, step.query, step.key, step.value};
  if (order != Order::kNoMask) {
    tensors.insert(order == Order::kMaskFirst ? tensors.begin() : tensors.end(), step.mask);
  }
  return tensors;
}

Step from_order(const Tensors& t, Order order) {
  const size_t first = order == Order::kMaskFirst ? 1 : 0;
  Step step{{}, t[first], t[first + 1], t[first + 2], t[first + 3], t[first + 4]};
  if (order != Order::kNoMask) {
    step.mask = order == Order::kMaskFirst ? t.front() : t.back();
  }
  return step;
}

OnnxModel exported_step(Order order) {
  const Forward forward = [order](const Tensors& t) { return from_order(t, order).outputs(); };
  return Exported(forward, in_order(random_step(2, 2, 3), order), ExportSettings{.ort_fusions = "cpu"}).model();
}

OnnxRunner::Inputs named_inputs(const Step& step, Order order) {
  OnnxRunner::Inputs inputs;
  const Tensors tensors = in_order(step, order);
  for (size_t i = 0; i < tensors.size(); ++i) {
    inputs.emplace("x" + std::to_string(i), tensors[i]);
  }
  return inputs;
}

// Which inputs come first decides which of the three lengths are symbols, and which one follows from them.
TEST(OnnxSharedCache, LengthsAreReadFromTheMask) {
  for (const Order order : {Order::kMaskFirst, Order::kCacheFirst}) {
    const OnnxModel model = exported_step(order);
    ASSERT_EQ(count_ops(model, "GroupQueryAttention"), 1u);
    const InPlace in_place = outputs_in_place(model.graph);
    ASSERT_THAT(in_place.caches, SizeIs(1));
    const bool mask_first = order == Order::kMaskFirst;
    EXPECT_THAT(in_place.caches[0].past, ElementsAre(mask_first ? "x1" : "x0", mask_first ? "x2" : "x1"));
    EXPECT_THAT(in_place.caches[0].present, ElementsAre("output.1", "output.2"));
  }
}

// Steps of one token and, for one row, of several, each behind what the steps before gave.
TEST(OnnxSharedCache, ABufferStaysUntilItIsFull) {
  for (const Order order : {Order::kMaskFirst, Order::kCacheFirst}) {
    const fs::path path = scratch_folder() / "m.onnx";
    save_model(exported_step(order), path);
    const OnnxRunner runner(path);
    for (const int64_t batch : {1, 3}) {
      at::Tensor keys = at::randn({batch, 2, 0, 8});
      at::Tensor values = at::randn({batch, 2, 0, 8});
      int64_t room = 0;
      for (const int64_t wanted : {5, 1, 1, 1, 3, 1, 1, 1, 1, 4, 1, 1}) {
        const int64_t past = keys.size(2);
        const int64_t queries = batch == 1 || past == 0 ? wanted : 1;
        Step step = random_step(batch, queries, past);
        step.keys = keys;
        step.values = values;
        const void* places[] = {keys.const_data_ptr(), values.const_data_ptr()};
        const Tensors expected = step.outputs();
        OnnxRunner::Inputs inputs = named_inputs(step, order);
        step = {};
        keys = values = at::Tensor();
        const OnnxRunner::Outputs outputs = runner.run_in_place(std::move(inputs));
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_EQ(outputs[i].second.sizes(), expected[i].sizes());
          EXPECT_TRUE(at::allclose(outputs[i].second, expected[i], 1e-5, 1e-6)) << past << " " << i;
        }
        keys = outputs[1].second;
        values = outputs[2].second;
        if (past + queries <= room) {
          EXPECT_EQ(keys.const_data_ptr(), places[0]) << past;
          EXPECT_EQ(values.const_data_ptr(), places[1]) << past;
        } else if (past > 0) {
          room = 2 * (past + queries);
        }
      }
      EXPECT_GT(room, keys.size(2));
    }
  }
}

// Without a mask over all tokens nothing but the cache tells its length: it is new at each step.
TEST(OnnxSharedCache, ALengthThatOnlyTheCacheTellsIsReadFromIt) {
  const OnnxModel model = exported_step(Order::kNoMask);
  ASSERT_EQ(count_ops(model, "GroupQueryAttention"), 1u);
  EXPECT_THAT(outputs_in_place(model.graph).caches, IsEmpty());
  const fs::path path = scratch_folder() / "m.onnx";
  save_model(model, path);
  const OnnxRunner runner(path);
  Step step = random_step(2, 1, 4);
  step.mask = at::Tensor();
  step.keys = first_places(with_room(step.keys, 12), 4);
  const Tensors expected = step.outputs();
  const OnnxRunner::Outputs outputs = runner.run_in_place(named_inputs(step, Order::kNoMask));
  EXPECT_TRUE(at::allclose(outputs[0].second, expected[0], 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(outputs[1].second, expected[1]));
}

// ── Models ──

struct OnnxSharedCacheOf : ::testing::Test {
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, register_onnx_backend);
  }

  static fs::path llama() {
    return exporters::testing::reference_folder("decoders") / "llama" / "LlamaForCausalLM_plain_0";
  }

  OnnxConfig config_ = [] {
    OnnxConfig config;
    config.ort_fusions = "cpu";
    return config;
  }();
  TemporaryFolder folder_;
  ExportedModel model_ = exporters::testing::exported_for_generation(OnnxExporter(), config_, llama(), folder_);

  PyTree empty_cache(int64_t batch) const {
    const TreeSpec& spec = model_.component("decode").metadata.in_spec.children[1].children.back();
    std::vector<PyTree::Leaf> leaves(spec.leaf_count(), at::zeros({batch, 2, 0, 8}));
    return PyTree::unflatten(spec, std::move(leaves));
  }
};

// Given a batch with padding on the left, when tokens are generated, then they are the reference's, every step gives
// what it gives with caches apart, and no layer's keys or values move but when their buffer is full.
TEST_F(OnnxSharedCacheOf, CachesStayOverAGeneration) {
  const GenerationCase recorded = exporters::testing::generation_case(llama(), "greedy");
  std::map<std::string, const void*> places;
  int64_t length = 0;
  int64_t room = 0;
  int moves = 0;
  GenerationStages stages;
  stages.decode.takes = [&](std::string_view input) { return model_.component("decode").metadata.takes(input); };
  stages.empty_cache = [&](int64_t batch, int64_t) { return empty_cache(batch); };
  stages.decode.run = [&](NamedInputs inputs) {
    const PyTree apart = model_.run("decode", inputs);
    PyTree output = model_.run_in_place("decode", std::move(inputs));
    EXPECT_TRUE(at::allclose(output.at("logits").tensor(), apart.at("logits").tensor(), 1e-5, 1e-6));
    const auto caches = output.find("cache")->tensors();
    const auto others = apart.find("cache")->tensors();
    EXPECT_EQ(caches.size(), 4u);
    const bool is_prompt = length == 0;
    length = caches[0].second.size(2);
    const bool fits = length <= room;
    for (size_t i = 0; i < caches.size(); ++i) {
      const auto& [path, states] = caches[i];
      EXPECT_TRUE(at::allclose(states, others[i].second, 1e-5, 1e-6)) << path << " at " << length;
      EXPECT_TRUE(!fits || states.const_data_ptr() == places[path]) << path << " moved at " << length;
      places[path] = states.const_data_ptr();
    }
    moves += !fits && !is_prompt ? 1 : 0;
    room = fits || is_prompt ? room : 2 * length;
    return output;
  };
  const Generator generator(
      stages, read_generation_config(model_.generation_config_json(), model_.config_json(), recorded.settings));
  EXPECT_TRUE(at::equal(generator.generate(recorded.inputs), recorded.sequences));
  EXPECT_EQ(length, recorded.sequences.size(1) - 1);
  EXPECT_GE(length - recorded.inputs.front().second.tensor().size(1), 8);
  EXPECT_LE(moves, 3);
}

// A caller that goes on twice from one cache gets what each token gives: the second does not write over the first.
TEST_F(OnnxSharedCacheOf, ACacheThatSomeoneKeepsIsNotWrittenOver) {
  const auto step = [&](int64_t token, const PyTree& cache) {
    const int64_t past = cache.tensors().front().second.size(2);
    return NamedInputs{{"input_ids", at::full({1, 1}, token, at::kLong)},
                       {"attention_mask", at::ones({1, past + 1}, at::kLong)},
                       {"position_ids", at::full({1, 1}, past, at::kLong)},
                       {"cache", cache}};
  };
  PyTree cache = empty_cache(1);
  for (const int64_t token : {1, 2, 3}) {
    cache = *model_.run_in_place("decode", step(token, cache)).find("cache");
  }
  const PyTree expected_first = model_.run("decode", step(4, cache));
  const PyTree expected_second = model_.run("decode", step(5, cache));
  const PyTree first = model_.run_in_place("decode", step(4, cache));
  EXPECT_EQ(first.find("cache")->at("layers.0.keys").tensor().const_data_ptr(),
            cache.at("layers.0.keys").tensor().const_data_ptr());
  const PyTree second = model_.run_in_place("decode", step(5, cache));
  for (const auto& [given, expected] : {std::pair(&first, &expected_first), std::pair(&second, &expected_second)}) {
    const auto actual = given->tensors();
    const auto wanted = expected->tensors();
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(at::allclose(actual[i].second, wanted[i].second, 1e-5, 1e-6)) << wanted[i].first;
    }
  }
}

// A mask of another length than cache and tokens together is refused: the operator would read beyond the cache.
TEST_F(OnnxSharedCacheOf, AMaskThatDoesNotFitTheCacheIsRefused) {
  PyTree cache = empty_cache(1);
  const NamedInputs prompt = {{"input_ids", at::ones({1, 4}, at::kLong)},
                              {"attention_mask", at::ones({1, 4}, at::kLong)},
                              {"position_ids", at::arange(4, at::kLong).unsqueeze(0)},
                              {"cache", cache}};
  cache = *model_.run("decode", prompt).find("cache");
  for (const int64_t length : {4, 6}) {
    const NamedInputs wrong = {{"input_ids", at::ones({1, 1}, at::kLong)},
                               {"attention_mask", at::ones({1, length}, at::kLong)},
                               {"position_ids", at::full({1, 1}, 4, at::kLong)},
                               {"cache", cache}};
    EXPECT_THAT(error_of([&] { model_.run("decode", wrong); }), HasSubstr("past is 4"));
  }
}

}  // namespace
}  // namespace exporters::onnx
