#pragma once

#include "exporters/support/log.h"

#include <string>
#include <string_view>
#include <vector>

namespace exporters::testing {

/// Collects the warnings that are logged during its lifetime.
class Warnings {
 public:
  Warnings() {
    set_log_sink([this](LogLevel level, std::string_view text) {
      if (level == LogLevel::kWarning) {
        texts.emplace_back(text);
      }
    });
  }
  ~Warnings() { set_log_sink({}); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  std::vector<std::string> texts;
};

}  // namespace exporters::testing
