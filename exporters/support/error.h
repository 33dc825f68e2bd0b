#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace exporters {

/// The one exception type of this library: what failed, where, and the way out.
/// `what()` is one paragraph: "<what> (<where>). <hint>".
class Error : public std::runtime_error {
 public:
  explicit Error(std::string what, std::string where = {}, std::string hint = {});

  const std::string& message() const { return what_; }
  /// The stage, node, module path or input that the failure belongs to; empty where there is none.
  const std::string& where() const { return where_; }
  /// What the caller can do; empty where nothing sensible can be said.
  const std::string& hint() const { return hint_; }

  /// The same error with `context` put before its place: used when an error crosses a stage.
  Error with_context(std::string_view context) const;

 private:
  std::string what_;
  std::string where_;
  std::string hint_;
};

/// Throws Error with a formatted message.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error with a formatted message unless `condition` holds. Arguments are evaluated always: keep them cheap.
template <typename... Args>
void ensure(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) {
    throw Error(fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace exporters
