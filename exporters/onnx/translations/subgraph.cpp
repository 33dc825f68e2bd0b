// Graphs inside nodes, as the context builds them.
#include "exporters/onnx/translations/context.h"

namespace exporters::onnx {

// ── What sizes are ──

struct TranslationContext::SizeScope::Saved {
  std::unordered_map<Expr, Axis> axes;
  std::unordered_map<Symbol, OnnxValue> symbols;
  std::unordered_map<Expr, OnnxValue> size_values;
};

TranslationContext::SizeScope::SizeScope(TranslationContext& context)
    : context_(context),
      saved_(std::make_unique<Saved>(Saved{context.axes_, context.symbols_, context.size_values_})) {}

TranslationContext::SizeScope::~SizeScope() {
  context_.axes_ = std::move(saved_->axes);
  context_.symbols_ = std::move(saved_->symbols);
  context_.size_values_ = std::move(saved_->size_values);
}

// ── The graph ──

struct TranslationContext::Subgraph::Saved {
  OnnxGraph graph;
  std::unordered_map<std::string, OnnxValues> emitted;
  std::unordered_map<std::string, size_t> producers;
};

TranslationContext::Subgraph::Subgraph(TranslationContext& context, const std::string& name)
    : context_(context),
      sizes_(context),
      saved_(
          std::make_unique<Saved>(Saved{std::move(context.graph_), context.emitted_, std::move(context.producers_)})),
      name_(context.unique_name(name)) {
  context_.graph_ = OnnxGraph();
  context_.graph_.initializers = std::move(saved_->graph.initializers);
  context_.producers_.clear();
}

TranslationContext::Subgraph::~Subgraph() {
  saved_->graph.initializers = std::move(context_.graph_.initializers);
  context_.graph_ = std::move(saved_->graph);
  context_.emitted_ = std::move(saved_->emitted);
  context_.producers_ = std::move(saved_->producers);
}

OnnxValueInfo TranslationContext::Subgraph::info(const OnnxValue& value, const Sizes& sizes) const {
  OnnxValueInfo info{value.name, onnx_type(value.dtype), std::vector<OnnxDim>()};
  for (const Expr& size : sizes) {
    OnnxDim& dim = info.dims->emplace_back();
    if (const auto number = size.as_int()) {
      dim = *number;
    }
  }
  return info;
}

OnnxValue TranslationContext::Subgraph::add_input(c10::ScalarType dtype, const Sizes& sizes) {
  OnnxValue value{context_.unique_name(name_ + "/input"), dtype};
  context_.graph_.inputs.push_back(info(value, sizes));
  return value;
}

// What is made outside, or given twice, goes through Identity.
void TranslationContext::Subgraph::add_output(const OnnxValue& value, const Sizes& sizes) {
  OnnxValue result = value;
  if (context_.producer(value) == nullptr || given_.contains(value.name)) {
    result.name = context_.unique_name(name_ + "/output");
    context_.graph_.nodes.push_back({result.name, "Identity", "", {value.name}, {result.name}, {}});
  }
  given_.insert(result.name);
  context_.graph_.outputs.push_back(info(result, sizes));
}

std::shared_ptr<OnnxGraph> TranslationContext::Subgraph::finish() {
  OnnxGraph& current = context_.graph_;
  auto graph = std::make_shared<OnnxGraph>();
  graph->name = name_;
  graph->nodes = std::move(current.nodes);
  graph->inputs = std::move(current.inputs);
  graph->outputs = std::move(current.outputs);
  current.nodes.clear();
  remove_dead_nodes(*graph);
  return graph;
}

}  // namespace exporters::onnx
