#include "exporters/support/log.h"

#include "exporters/support/error.h"
#include "exporters/support/near.h"
#include "exporters/support/progress.h"
#include "exporters/support/quote.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_set>

namespace exporters {
namespace {

struct Level {
  LogLevel level;
  const char* word;
  spdlog::level::level_enum spd;
};
constexpr std::array kLevels{
    Level{LogLevel::kDebug, "debug", spdlog::level::debug}, Level{LogLevel::kInfo, "info", spdlog::level::info},
    Level{LogLevel::kWarning, "warning", spdlog::level::warn}, Level{LogLevel::kError, "error", spdlog::level::err},
    Level{LogLevel::kOff, "off", spdlog::level::off}};

// A mistyped HFX_LOG must not end a program before it has begun: it counts as the default.
LogLevel level_from_environment() {
  const char* word = std::getenv("HFX_LOG");
  for (const Level& level : kLevels) {
    if (word != nullptr && word == std::string_view(level.word)) {
      return level.level;
    }
  }
  return LogLevel::kWarning;
}

struct State {
  std::atomic<LogLevel> level{level_from_environment()};
  std::atomic<bool> once{false};
  std::mutex mutex;
  std::unordered_set<std::string> written;
  LogSink sink;
  std::shared_ptr<spdlog::logger> logger;

  State() {
    logger = std::make_shared<spdlog::logger>("hfx", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    logger->set_pattern("%n: %^%l%$: %v");
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
  }
};

// Leaked, so that destructors of static objects may still log.
State& state() {
  static State* instance = new State();
  return *instance;
}

// A warned text is remembered at most this often: a hostile file must not grow the process.
constexpr size_t kMaxRemembered = 10'000;

bool is_new(State& s, std::string_view text) {
  return s.written.size() < kMaxRemembered && s.written.emplace(text).second;
}

void write(LogLevel level, std::string_view text, bool once) {
  State& s = state();
  if (level < s.level || level == LogLevel::kOff) {
    return;
  }
  std::lock_guard lock(s.mutex);
  if (once && !is_new(s, text)) {
    return;
  }
  if (s.sink) {
    s.sink(level, text);
  } else {
    clear_progress_line();
    s.logger->log(kLevels[static_cast<size_t>(level)].spd, "{}", printable(text));
  }
}

}  // namespace

void set_log_level(LogLevel level) { state().level = level; }

LogLevel log_level() { return state().level; }

LogLevel parse_log_level(std::string_view word) {
  std::vector<std::string> words;
  for (const Level& level : kLevels) {
    if (word == level.word) {
      return level.level;
    }
    words.emplace_back(level.word);
  }
  throw Error("Unknown log level " + quote(word), {},
              "Levels are debug, info, warning, error, off. " + did_you_mean(word, words));
}

void set_warnings_once(bool once) { state().once = once; }

void set_log_sink(LogSink sink) {
  std::lock_guard lock(state().mutex);
  state().sink = std::move(sink);
}

void log_message(LogLevel level, std::string_view text) {
  write(level, text, level == LogLevel::kWarning && state().once);
}

void warn_once(const std::string& text) { write(LogLevel::kWarning, text, true); }

}  // namespace exporters
