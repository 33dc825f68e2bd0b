// Programs for Python: tests/reference/check_pt2.py loads and runs what these tests write.
#include "examples/own_module/speech_encoder.h"
#include "exporters/framework/module_source.h"
#include "exporters/framework/pretrained_source.h"
#include "exporters/models/registry.h"
#include "tests/pt2/saved_program.h"
#include "tests/reference/folder.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using testing::SavedProgram;

TraceRequest request_of(const ExportSource& source, NamedInputs inputs, DynamicShapes shapes = {}) {
  TraceRequest request;
  request.module_class = source.architecture;
  request.state = source.state;
  request.inputs = std::move(inputs);
  request.forward = source.forward;
  request.dynamic_shapes = std::move(shapes);
  return request;
}

class SavedBert : public ::testing::TestWithParam<const char*> {};

TEST_P(SavedBert, RunsInPythonAtOtherSizes) {
  const std::string checkpoint = std::string(GetParam()) + "_relu_0";
  const std::shared_ptr<models::PreTrainedModel> model =
      models::load(testing::reference_folder("models") / "cases" / checkpoint);
  const auto inputs = [&](int64_t batch, int64_t length) {
    NamedInputs named;
    for (const auto& [name, value] : model->sample_inputs({batch, length})) {
      named.emplace_back(name, value);
    }
    return named;
  };

  SavedProgram saved(GetParam(), request_of(export_source(model), inputs(1, 8)));

  constexpr int64_t kMaxLength = 12;
  for (const auto& [batch, length] : {std::pair<int64_t, int64_t>(1, 8), {2, 1}, {3, 5}, {2, kMaxLength}}) {
    saved.expect_eager(inputs(batch, length), checkpoint);
  }
  NamedInputs too_long = inputs(2, kMaxLength);
  for (auto& [name, value] : too_long) {
    value = at::cat({value.tensor(), value.tensor()}, -1);
  }
  saved.expect_refused(too_long);
  NamedInputs unequal = inputs(2, 5);
  unequal[1].second = inputs(2, 6)[1].second;
  saved.expect_refused(unequal);
  saved.expect_onnx();
}

INSTANTIATE_TEST_SUITE_P(EveryHead, SavedBert,
                         ::testing::Values("BertModel", "BertForMaskedLM", "BertForSequenceClassification",
                                           "BertForTokenClassification", "BertForQuestionAnswering",
                                           "BertForMultipleChoice", "BertForNextSentencePrediction",
                                           "BertForPreTraining"));

TEST(SavedProgramTest, OwnModuleRunsInPython) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(0);
  SpeechEncoder encoder;
  encoder->eval();
  const auto inputs = [](int64_t batch, int64_t length) {
    return NamedInputs{{"mel", at::randn({batch, length, kMels})}};
  };

  SavedProgram saved("own_module", request_of(export_source(encoder.ptr(), &SpeechEncoderImpl::forward), inputs(2, 40),
                                              {{"mel", {{0, Dim::named("batch")}, {1, Dim::named("length")}}}}));

  for (const auto& [batch, length] : {std::pair<int64_t, int64_t>(1, 40), {3, 1}, {4, 77}, {2, 1999}}) {
    saved.expect_call(inputs(batch, length));
  }
  saved.expect_refused({{"mel", at::randn({1, 40, kMels + 1})}});
  saved.expect_onnx();
}

}  // namespace
}  // namespace exporters
