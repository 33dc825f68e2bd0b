#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <fmt/format.h>

#include <array>

// ── Recurrent layers, whole: (time, batch, features), or batch first ──
namespace exporters::families {
namespace {

// Parameters come layer by layer, direction by direction: input weights first.
void require_parameters(const ShapeCall& call, const TensorMeta& input) {
  const std::vector<at::Tensor> parameters = call.tensors("params");
  if (parameters.empty() || meta_of(parameters[0]).dim() != 2) {
    call.refuse("the first of the parameters is not a matrix");
  }
  const TensorMeta weight = meta_of(parameters[0]);
  require_equal(call, input.sizes.back(), weight.sizes[1], "features of the input");
  if (weight.dtype != input.dtype) {
    call.refuse(fmt::format("the input has dtype {} and the parameters {}", c10::toString(input.dtype),
                            c10::toString(weight.dtype)),
                "Convert one of them.");
  }
}

// (layers × directions, batch, features)
void require_state(const ShapeCall& call, const TensorMeta& state, const Expr& batch) {
  if (state.dim() != 3) {
    call.refuse(fmt::format("a state has rank {}, not 3", state.dim()));
  }
  const int64_t directions = call.boolean("bidirectional") ? 2 : 1;
  require_equal(call, state.sizes[0], call.integer("num_layers") * directions, "layers and directions of a state");
  require_equal(call, state.sizes[1], batch, "batch of a state");
}

// The output's features are those of both directions.
Expr output_features(const ShapeCall& call, const TensorMeta& hidden) {
  return hidden.sizes[2] * (call.boolean("bidirectional") ? 2 : 1);
}

void returns_states(ShapeCall& call, const std::vector<TensorMeta>& states) {
  for (const TensorMeta& state : states) {
    call.returns(formatted(state.sizes, state.dtype, state));
  }
}

void run(ShapeCall& call, const std::vector<TensorMeta>& states) {
  const TensorMeta input = call.meta("input");
  if (input.dim() != 3) {
    call.refuse(fmt::format("the input has rank {}, not 3", input.dim()));
  }
  const bool batch_first = call.boolean("batch_first");
  const Expr &time = input.sizes[batch_first ? 1 : 0], &batch = input.sizes[batch_first ? 0 : 1];
  require_parameters(call, input);
  for (const TensorMeta& state : states) {
    require_state(call, state, batch);
  }
  // It runs time first; batch first is a transposed view.
  TensorMeta output = formatted({time, batch, output_features(call, states[0])}, input.dtype, input);
  if (batch_first) {
    std::swap(output.sizes[0], output.sizes[1]);
    std::swap(output.strides[0], output.strides[1]);
  }
  call.returns(std::move(output));
  returns_states(call, states);
}

// Packed sequences: all steps of the batch in rows.
void run_packed(ShapeCall& call, const std::vector<TensorMeta>& states) {
  const TensorMeta data = call.meta("data");
  if (data.dim() != 2) {
    call.refuse(fmt::format("the data has rank {}, not 2", data.dim()));
  }
  require_parameters(call, data);
  for (const TensorMeta& state : states) {
    require_state(call, state, states[0].dim() == 3 ? states[0].sizes[1] : Expr(0));
  }
  call.returns(formatted({data.sizes[0], output_features(call, states[0])}, data.dtype, data));
  returns_states(call, states);
}

std::vector<TensorMeta> one_state(const ShapeCall& call) { return {call.meta("hx")}; }

std::vector<TensorMeta> two_states(const ShapeCall& call) {
  const std::vector<at::Tensor> states = call.tensors("hx");
  if (states.size() != 2) {
    call.refuse(fmt::format("{} states, not hidden and cell", states.size()));
  }
  return {meta_of(states[0]), meta_of(states[1])};
}

void rnn(ShapeCall& call) { run(call, one_state(call)); }
void rnn_packed(ShapeCall& call) { run_packed(call, one_state(call)); }
void lstm(ShapeCall& call) { run(call, two_states(call)); }
void lstm_packed(ShapeCall& call) { run_packed(call, two_states(call)); }

// ── One step: (batch, features) ──

void step(ShapeCall& call, const std::vector<TensorMeta>& states) {
  const TensorMeta input = call.meta("input"), input_weight = call.meta("w_ih");
  for (const TensorMeta& state : states) {
    if (state.dim() != input.dim() || input_weight.dim() != 2) {
      call.refuse(fmt::format("the input has rank {}, a state {}, the weight {}", input.dim(), state.dim(),
                              input_weight.dim()));
    }
    require_equal(call, input.sizes.back(), input_weight.sizes[1], "features of the input");
    require_equal(call, state.sizes.back(), call.meta("w_hh").sizes.back(), "features of a state");
    if (input.dim() == 2) {
      require_equal(call, state.sizes[0], input.sizes[0], "batch of a state");
    }
  }
  returns_states(call, states);
}

void rnn_cell(ShapeCall& call) { step(call, one_state(call)); }
void lstm_cell(ShapeCall& call) { step(call, two_states(call)); }

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::lstm.input", lstm},
    {"aten::lstm.data", lstm_packed},
    {"aten::gru.input", rnn},
    {"aten::gru.data", rnn_packed},
    {"aten::rnn_tanh.input", rnn},
    {"aten::rnn_tanh.data", rnn_packed},
    {"aten::rnn_relu.input", rnn},
    {"aten::rnn_relu.data", rnn_packed},
    {"aten::lstm_cell", lstm_cell},
    {"aten::gru_cell", rnn_cell},
    {"aten::rnn_tanh_cell", rnn_cell},
    {"aten::rnn_relu_cell", rnn_cell},
});

}  // namespace

std::span<const ShapeEntry> recurrent() { return kTable; }

}  // namespace exporters::families
