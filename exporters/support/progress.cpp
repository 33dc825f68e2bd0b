#include "exporters/support/progress.h"

#include "exporters/support/quote.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace exporters {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kQuiet{1000};
constexpr milliseconds kInterval{100};

std::atomic<bool> is_shown{false};

// In one write, so that lines of several threads do not mix. A terminal that is gone is no error.
void write_terminal(const std::string& text) {
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

std::string rate_text(double per_second, Progress::Unit unit) {
  if (unit == Progress::Unit::kItems) {
    return fmt::format("{:.3g}/s", per_second);
  }
  return short_bytes_text(static_cast<uint64_t>(per_second)) + "/s";
}

}  // namespace

Progress::Progress(std::string label, uint64_t total, Unit unit)
    : label_(std::move(label)),
      total_(total),
      unit_(unit),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      next_(start_ + kQuiet) {}

Progress::~Progress() { clear_progress_line(); }

void Progress::advance(uint64_t count) {
  if (!is_terminal_) {
    return;
  }
  std::lock_guard lock(mutex_);
  done_ += count;
  Clock::time_point now = Clock::now();
  if (now >= next_) {
    next_ = now + kInterval;
    is_shown = true;
    write_terminal("\r" + line(now) + "\x1b[K");
  }
}

std::string Progress::line(Clock::time_point now) const {
  std::string text = label_;
  if (total_ > 0) {
    double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    text += fmt::format("  {:.0f}%", 100 * share);
  } else {
    text += fmt::format("  {}", done_);
  }
  double seconds = std::chrono::duration<double>(now - start_).count();
  return text + "  " + rate_text(static_cast<double>(done_) / seconds, unit_);
}

void clear_progress_line() {
  if (is_shown.exchange(false)) {
    write_terminal("\r\x1b[K");
  }
}

}  // namespace exporters
