#pragma once

#include <fmt/core.h>

#include <functional>
#include <string>
#include <string_view>

namespace exporters {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// Messages below `level` are dropped. The default is kWarning, or what the environment variable HFX_LOG says
/// ("debug", "info", "warning", "error", "off"), read at the first message.
void set_log_level(LogLevel level);
LogLevel log_level();
/// Throws Error for a word that is none of the above.
LogLevel parse_log_level(std::string_view word);

/// With `true`, log_warning too writes each text once per process. The default is false.
void set_warnings_once(bool once);

/// Where messages go instead of stderr; an empty function restores stderr. Called from any thread, one at a time.
using LogSink = std::function<void(LogLevel, std::string_view)>;
void set_log_sink(LogSink sink);

void log_message(LogLevel level, std::string_view text);
/// A warning that is written once per process, however often its text comes by.
void warn_once(const std::string& text);

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kDebug) {
    log_message(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
  }
}

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kInfo) {
    log_message(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
}

template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kWarning) {
    log_message(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace exporters
