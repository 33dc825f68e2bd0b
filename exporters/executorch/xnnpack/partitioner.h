#pragma once

#include "exporters/executorch/edge/partition.h"

namespace exporters::executorch::xnnpack {

/// Takes float32 calls of ops that XNNPACK runs, with static or dynamic sizes.
class XnnpackPartitioner : public Partitioner {
 public:
  explicit XnnpackPartitioner(bool int8_linear = false) : int8_linear_(int8_linear) {}
  std::string backend_id() const override;
  void keep_ops(DecompositionTable& table) const override;
  void prepare(ExportedProgram& program) const override;
  std::string refuse(const exporters::Node& node, const EdgeProgram& edge) const override;
  bool is_worthwhile(const Partition& partition) const override;
  std::shared_ptr<const Partitioner> with_int8_linear() const override;
  Delegate lower(const Partition& partition, const EdgeProgram& edge, Program& program) const override;

 private:
  bool int8_linear_;
};

}  // namespace exporters::executorch::xnnpack
