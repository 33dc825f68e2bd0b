#include "exporters/trace/trace.h"

#include "exporters/fake/dispatch_mode.h"
#include "exporters/graph/leaf_argument.h"
#include "exporters/support/error.h"
#include "exporters/trace/recorder.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <set>

namespace exporters {
namespace {

// The program under construction, and the story of a trace.
class Trace {
 public:
  explicit Trace(const TraceRequest& request)
      : request_(request), env_(std::make_shared<ShapeEnv>()), recorder_(program_, env_) {}

  ExportedProgram run() && {
    program_.module_class = request_.module_class;
    add_state();
    add_inputs();
    check_names();
    add_outputs(call_forward());
    recorder_.settle();
    add_facts();
    return std::move(program_);
  }

 private:
  void add_state() {
    for (const bool buffers : {false, true}) {
      for (const TracedState& state : request_.state) {
        if (state.is_buffer == buffers) {
          recorder_.add_state(state);
        }
      }
    }
  }

  void add_inputs() {
    // torch.export's form of a call: (args tuple, kwargs dict).
    const PyTree inputs = PyTree::tuple({PyTree::tuple({}), PyTree::dict(request_.inputs)});
    program_.in_spec = inputs.spec();
    const std::vector<std::string> paths = program_.in_spec.children[1].leaf_paths();
    const std::vector<PyTree::Leaf> leaves = inputs.flatten();
    for (size_t i = 0; i < leaves.size(); ++i) {
      leaves_.push_back(add_input(paths[i], leaves[i]));
    }
  }

  PyTree::Leaf add_input(const std::string& path, const PyTree::Leaf& leaf) {
    if (const auto* tensor = std::get_if<at::Tensor>(&leaf)) {
      input_paths_.insert(path);
      program_.sample_inputs.push_back(*tensor);
      return recorder_.add_input(path, *tensor, axes(path, *tensor));
    }
    recorder_.add_constant_input(path, constant_argument(leaf));
    return leaf;
  }

  std::vector<Expr> axes(const std::string& path, const at::Tensor& sample) {
    const auto overrides = request_.dynamic_shapes.find(path);
    std::vector<Expr> sizes;
    for (int64_t axis = 0; axis < sample.dim(); ++axis) {
      Dim dim = request_.dynamic ? Dim::Auto() : Dim::Static();
      if (overrides != request_.dynamic_shapes.end()) {
        for (const auto& [key, chosen] : overrides->second) {
          ensure(-sample.dim() <= key && key < sample.dim(), "dynamic_shapes names axis {} of '{}', which has {} axes",
                 key, path, sample.dim());
          if (key == axis || key + sample.dim() == axis) {
            dim = chosen;
          }
        }
      }
      sizes.push_back(env_->add_axis({path, axis}, sample.size(axis), dim));
    }
    return sizes;
  }

  void check_names() const {
    for (const auto& [name, dims] : request_.dynamic_shapes) {
      if (!input_paths_.contains(name)) {
        std::string known;
        for (const std::string& path : input_paths_) {
          known += (known.empty() ? "" : ", ") + path;
        }
        throw Error("dynamic_shapes names '" + name + "', which is no tensor input", {}, "Inputs are: " + known + ".");
      }
    }
  }

  PyTree call_forward() {
    const PyTree inputs = PyTree::unflatten(program_.in_spec, leaves_);
    NamedInputs named;
    for (size_t i = 0; i < request_.inputs.size(); ++i) {
      named.emplace_back(request_.inputs[i].first, inputs.children()[1].children()[i]);
    }
    try {
      const at::NoGradGuard no_grad;
      const DispatchMode::Scope recording(recorder_);
      return request_.forward(named);
    } catch (const c10::Error& error) {
      throw Error(error.what_without_backtrace(), "forward of " + request_.module_class);
    }
  }

  void add_outputs(const PyTree& result) {
    program_.out_spec = result.spec();
    std::vector<Argument> outputs;
    for (const PyTree::Leaf& leaf : result.flatten()) {
      OutputSpec spec;
      spec.argument = std::visit(
          [&](const auto& value) -> Argument {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, std::monostate>) {
              return {};
            } else if constexpr (std::is_same_v<T, at::Tensor>) {
              return recorder_.value_of(value);
            } else {
              return value;
            }
          },
          leaf);
      outputs.push_back(spec.argument);
      program_.signature.outputs.push_back(std::move(spec));
    }
    program_.graph->set_outputs(std::move(outputs));
  }

  void add_facts() {
    program_.range_constraints = env_->range_constraints();
    program_.guards = env_->guards();
    program_.specializations = env_->specializations();
    for (const auto& [name, range] : program_.range_constraints) {
      const Symbol symbol(name);
      if (const auto hint = env_->hint(Expr(symbol))) {
        program_.hints.emplace(name, *hint);
      }
      if (const auto dim = env_->dim_name(symbol)) {
        program_.dim_names.emplace(name, *dim);
      }
    }
  }

  const TraceRequest& request_;
  ExportedProgram program_;
  std::shared_ptr<ShapeEnv> env_;
  Recorder recorder_;
  std::vector<PyTree::Leaf> leaves_;
  std::set<std::string> input_paths_;
};

}  // namespace

ExportedProgram trace(const TraceRequest& request) { return Trace(request).run(); }

}  // namespace exporters
