#include "tests/onnx/ops/number_ops.h"

#include "exporters/passes/dead_code.h"
#include "tests/onnx/harness.h"

#include <ATen/ATen.h>

#include <cmath>

namespace exporters::onnx::testing {
namespace {

using Expected = std::function<double(double, double, int64_t)>;

// Numbers of the inputs: a and b are floats, p = a < b and q = a < 1 are truth values, n is a size.
class Writer {
 public:
  explicit Writer(bool gives_bool)
      : gives_bool_(gives_bool),
        program_(traced(
            [gives_bool](const Tensors& t) {
              return Tensors{gives_bool ? at::lt(t[0], t[1]).expand({2}) : at::add(t[0], t[1]).expand({2})};
            },
            {at::ones({}, at::kDouble), at::ones({}, at::kDouble), at::ones({3}, at::kDouble)})),
        graph_(*program_.graph),
        inputs_(graph_.placeholders()) {}

  Value* item(size_t input, const char* op = "aten.item.default") {
    return graph_.add_output(graph_.call(op, {inputs_.at(input)}), Value::Kind::kSymFloat);
  }
  Value* a() { return item(0); }
  Value* b() { return item(1); }
  Value* p() { return number("_operator.lt", {a(), b()}, Value::Kind::kSymBool); }
  Value* q() { return number("_operator.lt", {a(), 1.0}, Value::Kind::kSymBool); }
  Value* n() {
    Value* size = graph_.add_output(graph_.call("aten.sym_size.int", {inputs_.at(2), 0}), Value::Kind::kSymInt);
    size->sym() = inputs_[2]->meta().sizes.at(0);
    return size;
  }
  Value* number(const std::string& op, std::vector<Argument> args, Value::Kind kind) {
    return graph_.add_output(graph_.call(op, std::move(args)), kind);
  }

  NumberOpProgram give(Value* number, Expected expected) && {
    Node* full = graph_.call("aten.full.default", {Argument::List{2}, number},
                             {{"dtype", gives_bool_ ? c10::kBool : c10::kDouble}});
    Value* result = graph_.add_output(full);
    result->meta() = graph_.outputs().at(0).value()->meta();
    graph_.set_outputs({result});
    program_.signature.outputs.at(0).argument = result;
    eliminate_dead_code(graph_);
    return {std::move(program_), gives_bool_, std::move(expected)};
  }

 private:
  bool gives_bool_;
  ExportedProgram program_;
  Graph& graph_;
  std::vector<Value*> inputs_;
};

using Programs = std::map<std::string, NumberOpProgram>;

void add_of_two_floats(Programs& programs, const std::string& op, bool gives_bool, double (*function)(double, double)) {
  Writer writer(gives_bool);
  const Value::Kind kind = gives_bool ? Value::Kind::kSymBool : Value::Kind::kSymFloat;
  Value* result = writer.number(op, {writer.a(), writer.b()}, kind);
  programs.emplace(op, std::move(writer).give(result, [=](double a, double b, int64_t) { return function(a, b); }));
}

void add_of_one_float(Programs& programs, const std::string& op, double (*function)(double)) {
  Writer writer(/*gives_bool=*/false);
  Value* result = writer.number(op, {writer.a()}, Value::Kind::kSymFloat);
  programs.emplace(op, std::move(writer).give(result, [=](double a, double, int64_t) { return function(a); }));
}

void add_of_truth_values(Programs& programs) {
  for (const std::string op : {"_operator.and_", "_operator.or_"}) {
    Writer writer(/*gives_bool=*/true);
    Value* result = writer.number(op, {writer.p(), writer.q()}, Value::Kind::kSymBool);
    programs.emplace(op, std::move(writer).give(result, [is_and = op == "_operator.and_"](double a, double b, int64_t) {
      return is_and ? a < b && a < 1 : a < b || a < 1;
    }));
  }
  for (const std::string op : {"_operator.not_", "torch.sym_not"}) {
    Writer writer(/*gives_bool=*/true);
    Value* result = writer.number(op, {writer.p()}, Value::Kind::kSymBool);
    programs.emplace(op, std::move(writer).give(result, [](double a, double b, int64_t) { return !(a < b); }));
  }
}

Programs all_programs() {
  Programs programs;
  add_of_two_floats(programs, "_operator.add", false, [](double a, double b) { return a + b; });
  add_of_two_floats(programs, "_operator.sub", false, [](double a, double b) { return a - b; });
  add_of_two_floats(programs, "_operator.mul", false, [](double a, double b) { return a * b; });
  add_of_two_floats(programs, "_operator.truediv", false, [](double a, double b) { return a / b; });
  add_of_two_floats(programs, "_operator.pow", false, [](double a, double b) { return std::pow(a, b); });
  add_of_two_floats(programs, "_operator.eq", true, [](double a, double b) { return a == b ? 1.0 : 0.0; });
  add_of_two_floats(programs, "_operator.ne", true, [](double a, double b) { return a != b ? 1.0 : 0.0; });
  add_of_two_floats(programs, "_operator.lt", true, [](double a, double b) { return a < b ? 1.0 : 0.0; });
  add_of_two_floats(programs, "_operator.le", true, [](double a, double b) { return a <= b ? 1.0 : 0.0; });
  add_of_two_floats(programs, "_operator.gt", true, [](double a, double b) { return a > b ? 1.0 : 0.0; });
  add_of_two_floats(programs, "_operator.ge", true, [](double a, double b) { return a >= b ? 1.0 : 0.0; });
  add_of_one_float(programs, "_operator.neg", [](double a) { return -a; });
  add_of_one_float(programs, "math.sqrt", [](double a) { return std::sqrt(a); });
  add_of_one_float(programs, "torch._sym_sqrt", [](double a) { return std::sqrt(a); });
  add_of_truth_values(programs);
  Writer sizes(/*gives_bool=*/false);
  Value* size = sizes.number("torch.sym_float", {sizes.n()}, Value::Kind::kSymFloat);
  programs.emplace("torch.sym_float",
                   std::move(sizes).give(size, [](double, double, int64_t n) { return static_cast<double>(n); }));
  for (const std::string op : {"aten.item", "aten._local_scalar_dense"}) {
    Writer writer(/*gives_bool=*/false);
    Value* item = writer.item(1, (op + ".default").c_str());
    programs.emplace(op, std::move(writer).give(item, [](double, double b, int64_t) { return b; }));
  }
  return programs;
}

}  // namespace

const std::map<std::string, NumberOpProgram>& number_op_programs() {
  static const Programs all = all_programs();
  return all;
}

}  // namespace exporters::onnx::testing
