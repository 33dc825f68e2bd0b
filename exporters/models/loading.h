#pragma once

#include "exporters/models/pretrained.h"
#include "exporters/weights/checkpoint.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace exporters::models {

/// Fills a model's parameters from a checkpoint. Everything is checked before the first byte of a weight is touched,
/// except that two stored tensors which the config ties are compared.
class StateLoader {
 public:
  StateLoader(PreTrainedModel& model, const Checkpoint& checkpoint);
  /// @param dtype of every parameter; by default that of the first floating tensor stored, by name.
  /// @param defer whether parameters that no file holds as they are get no data (load_for_export).
  /// Throws Error as load() says.
  void run(std::optional<c10::ScalarType> dtype, bool defer = false);

 private:
  c10::ScalarType stored_dtype() const;
  std::string model_name(std::string_view key) const;
  std::optional<std::string> fitted(const std::string& name) const;
  bool take_piece(const std::string& name, const std::string& key);
  bool is_passed_over(std::string_view key) const;
  c10::ScalarType dtype_of(std::string_view name) const;
  void match_keys();
  void pair_tied_weights();
  bool is_same(const std::string& a, const std::string& b) const;
  void check_missing() const;
  void check_shapes() const;
  void check_pieces(std::vector<std::string>& problems) const;
  void fill(bool defer);
  void join_pieces(bool defer);
  void tie();
  void make_missing();
  void report();

  PreTrainedModel& model_;
  const Checkpoint& checkpoint_;
  KeyRules rules_;
  c10::ScalarType dtype_ = c10::ScalarType::Float;
  std::unordered_map<std::string, const Slot*> wanted_;
  std::vector<std::string> order_;
  std::map<std::string, std::string> stored_;  // parameter → checkpoint key
  std::map<std::string, std::string> tied_;    // parameter → the parameter it is
  // Parameter of experts → place in it → checkpoint key of the matrix there.
  std::map<std::string, std::map<int64_t, std::string>> pieces_;
  LoadReport report_;
};

/// As load(), but parameters whose dtype changes, and those of experts that are stored one by one, get no data
/// (graph/deferred_tensor.h): for exports, whose writers convert and join.
std::unique_ptr<PreTrainedModel> load_for_export(const std::filesystem::path& folder, const LoadOptions& options = {});

}  // namespace exporters::models
