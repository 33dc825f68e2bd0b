#include "exporters/support/progress.h"

#include "exporters/support/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <thread>

namespace exporters {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// stderr is a terminal, and what is written there can be read, for as long as this lives.
class Terminal {
 public:
  Terminal() {
    int slave = -1;
    is_open_ = ::openpty(&master_, &slave, nullptr, nullptr, nullptr) == 0;
    saved_ = ::dup(STDERR_FILENO);
    ::dup2(slave, STDERR_FILENO);
    ::close(slave);
  }
  ~Terminal() {
    restore();
    ::close(master_);
  }

  bool is_open() const { return is_open_; }
  std::string text() {
    restore();
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(master_, buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<size_t>(got));
    }
    return text;
  }

 private:
  void restore() {
    if (saved_ >= 0) {
      ::dup2(saved_, STDERR_FILENO);
      ::close(saved_);
      saved_ = -1;
    }
  }

  int master_ = -1;
  int saved_ = -1;
  bool is_open_ = false;
};

void work_for(Progress& progress, std::chrono::milliseconds time, int steps) {
  for (int i = 0; i < steps; ++i) {
    std::this_thread::sleep_for(time / steps);
    progress.advance(10);
  }
}

TEST(ProgressTest, LongWorkIsShownOnATerminalAndTakenAwayAtItsEnd) {
  Terminal terminal;
  ASSERT_TRUE(terminal.is_open());
  {
    Progress progress("Writing weights", 100);
    work_for(progress, std::chrono::milliseconds(1200), 6);
  }
  std::string text = terminal.text();
  EXPECT_THAT(text, HasSubstr("Writing weights  60%"));
  EXPECT_THAT(text, Not(HasSubstr("Writing weights  20%")));
  EXPECT_THAT(text, EndsWith("\r\x1b[K"));
}

TEST(ProgressTest, ShortWorkIsSilent) {
  Terminal terminal;
  ASSERT_TRUE(terminal.is_open());
  {
    Progress progress("Writing weights", 100);
    work_for(progress, std::chrono::milliseconds(50), 10);
  }
  EXPECT_EQ(terminal.text(), "");
}

TEST(ProgressTest, NothingIsWrittenWhereStderrIsNoTerminal) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress("Writing weights", 100);
    work_for(progress, std::chrono::milliseconds(1200), 6);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(ProgressTest, AMessageTakesTheLineAwayFirst) {
  Terminal terminal;
  ASSERT_TRUE(terminal.is_open());
  {
    Progress progress("Writing weights", 100);
    work_for(progress, std::chrono::milliseconds(1100), 2);
    log_warning("progress test");
  }
  EXPECT_THAT(terminal.text(), HasSubstr("\r\x1b[Khfx: "));
}

}  // namespace
}  // namespace exporters
