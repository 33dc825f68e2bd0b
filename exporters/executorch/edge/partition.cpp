#include "exporters/executorch/edge/partition.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/graph/op_name.h"
#include "exporters/support/error.h"

#include <algorithm>
#include <queue>
#include <unordered_set>

namespace exporters::executorch {

// ── The program ──

EdgeProgram::EdgeProgram(ExportedProgram program) : program_(std::move(program)), bounds_(program_) {
  std::unordered_set<std::string> written;
  for (const OutputSpec& spec : program_.signature.outputs) {
    if (spec.kind == OutputSpec::Kind::kBufferMutation || spec.kind == OutputSpec::Kind::kParameterMutation) {
      written.insert(spec.target);
    }
  }
  for (const InputSpec& spec : program_.signature.inputs) {
    const auto state = program_.state.find(spec.target);
    if (!spec.target.empty() && state != program_.state.end() && !written.contains(spec.target)) {
      constants_.emplace(program_.graph->find(spec.name), &state->second);
    }
  }
}

const StateTensor* EdgeProgram::constant(const Value& value) const {
  const auto found = constants_.find(&value);
  return found == constants_.end() ? nullptr : found->second;
}

const EdgeCall* EdgeProgram::call(const Node& node) const {
  const auto found = calls_.find(&node);
  return found == calls_.end() ? nullptr : &found->second;
}

bool EdgeProgram::is_output(const Value& value) const {
  const std::vector<Node*> users = value.users();
  return std::any_of(users.begin(), users.end(), [](const Node* user) { return user->is_output(); });
}

Bytes bytes_of(const StateTensor& state) {
  const at::Tensor& tensor = state.tensor;
  const bool is_deferred = deferred_conversion(tensor) != nullptr;
  if (!is_deferred && state.source && tensor.is_contiguous() && state.source->nbytes == tensor.nbytes()) {
    return *state.source;
  }
  return is_deferred ? tensor : tensor.contiguous();
}

// ── Partitions ──

namespace {

bool is_tensor_call(const Node& node) {
  return node.kind() == Node::Kind::kCall && !node.outputs().empty() &&
         (node.output()->is_tensor() || node.output()->kind() == Value::Kind::kTensorList);
}

class Partitioning {
 public:
  Partitioning(const EdgeProgram& edge, const Partitioner* partitioner) : edge_(edge), partitioner_(partitioner) {}

  Delegation run() {
    find_levels();
    drop_small_ones();
    find_edges();
    order_steps();
    divide_branches();
    return std::move(result_);
  }

 private:
  std::string refuse(const Node& node) const {
    if (edge_.call(node) != nullptr) {
      return "the runtime jumps; what the branches call is counted by itself";
    }
    if (partitioner_ == nullptr || node.kind() != Node::Kind::kCall || !is_dispatcher_target(node.target())) {
      return "no delegate";
    }
    return partitioner_->refuse(node, edge_);
  }

  // Taken calls stand on odd levels, others on even ones.
  void find_levels() {
    std::unordered_map<const Node*, int64_t> levels;
    std::unordered_map<int64_t, size_t> by_level;
    for (const Node& node : edge_.graph()) {
      if (node.kind() != Node::Kind::kCall) {
        continue;
      }
      std::string reason = refuse(node);
      const bool is_taken = reason.empty();
      int64_t level = is_taken ? 1 : 0;
      for (const Value* input : node.inputs()) {
        const auto before = levels.find(input->node());
        if (before != levels.end()) {
          const int64_t same = before->second;
          level = std::max(level, same % 2 == (is_taken ? 1 : 0) ? same : same + 1);
        }
      }
      levels.emplace(&node, level);
      if (is_taken) {
        const auto [place, is_new] = by_level.try_emplace(level, result_.partitions.size());
        if (is_new) {
          result_.partitions.emplace_back();
        }
        result_.partitions[place->second].nodes.push_back(&node);
      } else if (is_tensor_call(node) && partitioner_ != nullptr) {
        result_.outside.push_back({&node, std::move(reason)});
      }
    }
  }

  // Without a partition its calls stand alone, which makes no cycle either.
  void drop_small_ones() {
    std::vector<Partition> kept;
    for (Partition& partition : result_.partitions) {
      if (partitioner_->is_worthwhile(partition)) {
        for (const Node* node : partition.nodes) {
          partition_of_.emplace(node, kept.size());
        }
        kept.push_back(std::move(partition));
        continue;
      }
      for (const Node* node : partition.nodes) {
        result_.outside.push_back({node, "too little work for a call of the delegate"});
      }
    }
    result_.partitions = std::move(kept);
  }

  std::optional<size_t> partition_of(const Node* node) const {
    const auto found = partition_of_.find(node);
    return found == partition_of_.end() ? std::nullopt : std::optional(found->second);
  }

  void find_edges() {
    for (size_t i = 0; i < result_.partitions.size(); ++i) {
      Partition& partition = result_.partitions[i];
      std::unordered_set<const Value*> seen;
      for (const Node* node : partition.nodes) {
        for (Value* input : node->inputs()) {
          if (input->is_tensor() && partition_of(input->node()) != i && edge_.constant(*input) == nullptr &&
              seen.insert(input).second) {
            partition.inputs.push_back(input);
          }
        }
        for (Value* output : node->outputs()) {
          const std::vector<Node*> users = output->users();
          if (std::any_of(users.begin(), users.end(), [&](const Node* user) { return partition_of(user) != i; })) {
            partition.outputs.push_back(output);
          }
        }
      }
    }
  }

  // ── Order ──

  // A step for each call outside and each partition, numbered by where it begins in the program.
  void order_steps() {
    std::vector<ScheduledStep> steps;
    std::unordered_map<const Node*, size_t> step_of;
    std::unordered_map<size_t, size_t> step_of_partition;
    for (const Node& node : edge_.graph()) {
      if (node.kind() != Node::Kind::kCall) {
        continue;
      }
      const auto partition = partition_of(&node);
      if (!partition) {
        step_of.emplace(&node, steps.size());
        steps.emplace_back(&node);
        continue;
      }
      const auto [place, is_new] = step_of_partition.try_emplace(*partition, steps.size());
      step_of.emplace(&node, place->second);
      if (is_new) {
        steps.emplace_back(*partition);
      }
    }
    std::vector<std::unordered_set<size_t>> users(steps.size());
    std::vector<size_t> waits_for(steps.size(), 0);
    for (const auto& [node, step] : step_of) {
      for (const Value* input : node->inputs()) {
        const auto before = step_of.find(input->node());
        if (before != step_of.end() && before->second != step && users[before->second].insert(step).second) {
          ++waits_for[step];
        }
      }
    }
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t step = 0; step < steps.size(); ++step) {
      if (waits_for[step] == 0) {
        ready.push(step);
      }
    }
    while (!ready.empty()) {
      const size_t step = ready.top();
      ready.pop();
      result_.steps.push_back(steps[step]);
      for (const size_t user : users[step]) {
        if (--waits_for[user] == 0) {
          ready.push(user);
        }
      }
    }
    ensure(result_.steps.size() == steps.size(), "the partitions of {} wait for each other",
           partitioner_ == nullptr ? "no delegate" : partitioner_->backend_id());
  }

  // ── Subgraphs ──

  void divide_branches() {
    for (const Node& node : edge_.graph()) {
      if (const EdgeCall* call = edge_.call(node)) {
        std::vector<Delegation>& branches = result_.branches[&node];
        for (const auto& branch : call->branches) {
          branches.push_back(partition(*branch, partitioner_));
        }
      }
    }
  }

  const EdgeProgram& edge_;
  const Partitioner* partitioner_;
  Delegation result_;
  std::unordered_map<const Node*, size_t> partition_of_;
};

}  // namespace

Delegation partition(const EdgeProgram& edge, const Partitioner* partitioner) {
  return Partitioning(edge, partitioner).run();
}

}  // namespace exporters::executorch
