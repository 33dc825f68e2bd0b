// Latency of a traced program in the interpreter and of the same model called eagerly: what interpreter runs.
//
// usage: bench_interpreter CHECKPOINT RUNS BATCH,SEQUENCE…
//
// Prints JSON: for each shape the medians in milliseconds and the largest difference between the outputs.
#include "exporters/dynamo/trace_model.h"
#include "exporters/framework/pretrained_source.h"
#include "exporters/interpreter/interpreter.h"
#include "exporters/support/error.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace exporters {
namespace {

constexpr int kWarmUp = 5;

std::shared_ptr<const ExportedProgram> traced(const std::shared_ptr<const models::PreTrainedModel>& model) {
  const models::ForwardArgs sample = model->sample_inputs({2, 8});
  DynamoConfig config;
  config.dynamic = true;
  return trace_model(export_source(model), {sample.begin(), sample.end()}, config).program;
}

/// One call: by the clock, and the processor time of all threads of this process, which other processes don't change.
struct Cost {
  double wall = 0;
  double processor = 0;
};

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Cost cost_of(const std::function<void()>& run) {
  const double processor = processor_seconds();
  const auto start = std::chrono::steady_clock::now();
  run();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          processor_seconds() - processor};
}

double median_ms(const std::vector<Cost>& costs, double Cost::*field) {
  std::vector<double> values;
  for (const Cost& cost : costs) {
    values.push_back(1000 * (cost.*field));
  }
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double largest_difference(const PyTree& eager, const std::vector<PyTree::Leaf>& program) {
  double largest = 0;
  const std::vector<PyTree::Leaf> leaves = eager.flatten();
  for (size_t i = 0; i < leaves.size(); ++i) {
    const at::Tensor difference = std::get<at::Tensor>(leaves[i]) - std::get<at::Tensor>(program.at(i));
    largest = std::max(largest, difference.abs().max().item<double>());
  }
  return largest;
}

void measure(const models::PreTrainedModel& model, const Interpreter& interpreter, models::SampleSize size, int runs) {
  const models::ForwardArgs args = model.sample_inputs(size);
  std::vector<at::Tensor> inputs;
  for (const auto& [name, value] : args) {
    inputs.push_back(value.tensor());
  }
  std::vector<Cost> eager;
  std::vector<Cost> program;
  for (int run = -kWarmUp; run < runs; ++run) {
    const auto time_eager = [&] { return cost_of([&] { model(args); }); };
    const auto time_program = [&] { return cost_of([&] { interpreter.run(inputs); }); };
    // The order turns round from one round to the next.
    const bool eager_first = run % 2 == 0;
    const Cost first = eager_first ? time_eager() : time_program();
    const Cost second = eager_first ? time_program() : time_eager();
    if (run >= 0) {
      eager.push_back(eager_first ? first : second);
      program.push_back(eager_first ? second : first);
    }
  }
  fmt::print(
      "{{\"batch\": {}, \"sequence\": {}, \"eager_ms\": {:.4f}, \"interpreter_ms\": {:.4f}, "
      "\"eager_cpu_ms\": {:.4f}, \"interpreter_cpu_ms\": {:.4f}, \"largest_difference\": {:.2e}}}\n",
      size.batch, size.sequence, median_ms(eager, &Cost::wall), median_ms(program, &Cost::wall),
      median_ms(eager, &Cost::processor), median_ms(program, &Cost::processor),
      largest_difference(model(args), interpreter.run(inputs)));
}

int run(int count, char** arguments) {
  ensure(count >= 4, "usage: bench_interpreter CHECKPOINT RUNS BATCH,SEQUENCE…");
  const std::shared_ptr<const models::PreTrainedModel> model = models::load(arguments[1]);
  const Interpreter interpreter(traced(model));
  for (int i = 3; i < count; ++i) {
    long batch = 0;
    long sequence = 0;
    ensure(std::sscanf(arguments[i], "%ld,%ld", &batch, &sequence) == 2, "'{}' is no shape: BATCH,SEQUENCE",
           arguments[i]);
    measure(*model, interpreter, {batch, sequence}, std::atoi(arguments[2]));
  }
  return 0;
}

}  // namespace
}  // namespace exporters

int main(int count, char** arguments) {
  try {
    return exporters::run(count, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
