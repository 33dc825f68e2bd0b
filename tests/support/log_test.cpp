#include "exporters/support/log.h"

#include "exporters/support/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace exporters {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LogTest : public ::testing::Test {
 protected:
  LogTest() {
    set_log_sink([this](LogLevel, std::string_view text) { texts_.emplace_back(text); });
  }
  ~LogTest() override {
    set_log_sink({});
    set_log_level(LogLevel::kWarning);
    set_warnings_once(false);
  }
  std::vector<std::string> texts_;
};

TEST_F(LogTest, MessagesBelowTheLevelAreDropped) {
  set_log_level(LogLevel::kInfo);
  log_debug("debug {}", 1);
  log_info("info {}", 2);
  log_warning("warning {}", 3);
  set_log_level(LogLevel::kOff);
  log_warning("after");
  EXPECT_THAT(texts_, ElementsAre("info 2", "warning 3"));
}

TEST_F(LogTest, OnceMeansOncePerText) {
  warn_once("log test a");
  warn_once("log test a");
  warn_once("log test b");
  EXPECT_THAT(texts_, ElementsAre("log test a", "log test b"));
}

TEST_F(LogTest, AllWarningsCanBeOnce) {
  log_warning("log test {}", "c");
  log_warning("log test {}", "c");
  set_warnings_once(true);
  log_warning("log test {}", "d");
  log_warning("log test {}", "d");
  EXPECT_THAT(texts_, ElementsAre("log test c", "log test c", "log test d"));
}

TEST_F(LogTest, GoesToStderrWithoutASink) {
  set_log_sink({});
  ::testing::internal::CaptureStderr();
  log_warning("{} is odd", "x");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "hfx: warning: x is odd\n");
}

TEST_F(LogTest, ThreadsDoNotMix) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < 100; ++j) {
        log_warning("text");
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(texts_.size(), 400u);
}

TEST_F(LogTest, LevelsAreParsedFromWords) {
  EXPECT_EQ(parse_log_level("debug"), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("off"), LogLevel::kOff);
  try {
    parse_log_level("warnig");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Did you mean 'warning'?"));
  }
}

}  // namespace
}  // namespace exporters
