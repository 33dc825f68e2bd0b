#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace exporters {

/// A line on the terminal for work that takes more than a second: "Writing weights  42%  1.8 GB/s". Nothing is
/// written if stderr is no terminal, or the work is over before. The line goes away with the object.
class Progress {
 public:
  enum class Unit { kItems, kBytes };

  /// A `total` of 0 means that it is not known.
  explicit Progress(std::string label, uint64_t total = 0, Unit unit = Unit::kItems);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From any thread; cheap.
  void advance(uint64_t count = 1);

 private:
  using Clock = std::chrono::steady_clock;

  std::string line(Clock::time_point now) const;

  std::string label_;
  uint64_t total_;
  Unit unit_;
  bool is_terminal_;
  std::mutex mutex_;
  uint64_t done_ = 0;
  Clock::time_point start_;
  Clock::time_point next_;
};

/// Takes a shown progress line off the terminal, so that a message can be written; it comes back with the next step.
void clear_progress_line();

}  // namespace exporters
