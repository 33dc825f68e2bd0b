#include "exporters/framework/module_source.h"

#include "exporters/support/error.h"

namespace exporters {

ExportSource export_source(const torch::nn::Module& module, std::function<PyTree(const NamedInputs&)> forward,
                           AxisLabels axis_labels) {
  TraceRequest request = request_for(module);
  ExportSource source;
  source.architecture = std::move(request.module_class);
  source.state = std::move(request.state);
  source.forward = std::move(forward);
  source.axis_labels = std::move(axis_labels);
  return source;
}

void detail::check_argument_count(const NamedInputs& inputs, size_t expected) {
  ensure(inputs.size() == expected, "the forward takes {} arguments, and there are {} sample inputs", expected,
         inputs.size());
}

void detail::fail_argument(const std::string& name, const char* expected) {
  fail("the forward takes {} for '{}', and the sample input is none", expected, name);
}

}  // namespace exporters
