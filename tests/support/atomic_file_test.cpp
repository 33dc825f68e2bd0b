#include "exporters/support/atomic_file.h"

#include "exporters/support/error.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

namespace exporters {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::read_text;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using testing::write_text;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().native());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Runs `f` in a child that kills itself without any clean-up when `f` returns.
template <typename F>
void run_and_kill(F&& f) {
  pid_t child = ::fork();
  if (child == 0) {
    f();
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST(AtomicFileTest, AppearsOnCommitWithWhatWasWritten) {
  TemporaryFolder folder;
  AtomicFile file(folder / "a.bin", Durability::kDurable);
  file.write("abc");
  file.align(8);
  file.write("d");
  EXPECT_FALSE(fs::exists(folder / "a.bin"));
  EXPECT_EQ(file.size(), 9u);

  file.commit();

  EXPECT_EQ(read_text(folder / "a.bin"), std::string("abc\0\0\0\0\0d", 9));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.bin"));
}

TEST(AtomicFileTest, ReservedBytesAreZerosUntilWritten) {
  TemporaryFolder folder;
  AtomicFile file(folder / "a.bin");
  file.write("ab");
  uint64_t start = file.reserve(3);
  file.write("c");
  ASSERT_EQ(::pwrite(file.fd(), "x", 1, static_cast<off_t>(start + 1)), 1);
  file.commit();
  EXPECT_EQ(read_text(folder / "a.bin"), std::string("ab\0x\0c", 6));
}

TEST(AtomicFileTest, WithoutACommitTheOldFileStays) {
  TemporaryFolder folder;
  write_text(folder / "a.txt", "old");
  EXPECT_THROW(
      {
        AtomicFile file(folder / "a.txt");
        file.write("new");
        throw std::runtime_error("the writer failed");
      },
      std::runtime_error);
  EXPECT_EQ(read_text(folder / "a.txt"), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.txt"));
}

TEST(AtomicFileTest, AReaderOfTheOldFileKeepsIt) {
  TemporaryFolder folder;
  write_text(folder / "a.txt", "old");
  std::ifstream reader(folder / "a.txt");
  write_file(folder / "a.txt", "new");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "old");
  EXPECT_EQ(read_text(folder / "a.txt"), "new");
}

TEST(AtomicFileTest, KeepsTheModeOfTheFileItReplaces) {
  TemporaryFolder folder;
  write_text(folder / "a.txt", "old");
  fs::permissions(folder / "a.txt", fs::perms::owner_read | fs::perms::owner_write);
  write_file(folder / "a.txt", "new");
  EXPECT_EQ(fs::status(folder / "a.txt").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(AtomicFileTest, ALinkIsReplacedWhereItLeads) {
  TemporaryFolder folder;
  write_text(folder / "real/a.txt", "old");
  fs::create_symlink("real/a.txt", folder / "link.txt");
  write_file(folder / "link.txt", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link.txt"));
  EXPECT_EQ(read_text(folder / "real/a.txt"), "new");
}

TEST(AtomicFileTest, WhatAKilledWriterLeftIsRemovedByTheNext) {
  TemporaryFolder folder;
  write_text(folder / "a.txt", "old");
  run_and_kill([&] { new AtomicFile(folder / "a.txt"); });
  EXPECT_EQ(names_in(folder.path()).size(), 2u);
  EXPECT_EQ(read_text(folder / "a.txt"), "old");

  write_file(folder / "a.txt", "new");

  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.txt"));
}

TEST(AtomicFileTest, ALivingWriterIsLeftAlone) {
  TemporaryFolder folder;
  AtomicFile slow(folder / "a.txt");
  slow.write("slow");
  write_file(folder / "a.txt", "fast");
  slow.commit();
  EXPECT_EQ(read_text(folder / "a.txt"), "slow");
}

// The limit on file sizes fails a write as a full disk does.
TEST(AtomicFileTest, ADiskThatFillsUpIsAnErrorAndChangesNothing) {
  TemporaryFolder folder;
  write_text(folder / "a.txt", "old");
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = {1'000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);

  std::string error = error_of([&] { write_file(folder / "a.txt", std::string(10'000, 'x')); });

  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(error, HasSubstr("Cannot write '" + (folder / "a.txt").native() + "': File too large"));
  EXPECT_EQ(read_text(folder / "a.txt"), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.txt"));
}

TEST(AtomicFileTest, PlacesThatCannotBeWrittenAreNamed) {
  TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { AtomicFile file(folder / "none/a.txt"); }), HasSubstr("none/a.txt': No such file"));
  EXPECT_THAT(error_of([&] { AtomicFile file(folder.path()); }), HasSubstr("it is a folder"));
}

TEST(AtomicFileTest, ADeviceIsNotReplaced) {
  EXPECT_THROW(AtomicFile("/dev/null"), Error);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFolderTest, AppearsOnCommit) {
  TemporaryFolder folder;
  AtomicFolder out(folder / "deep/er/out");
  write_text(out.path() / "sub/a.txt", "a");
  EXPECT_FALSE(fs::exists(folder / "deep/er/out"));

  out.commit();

  EXPECT_EQ(read_text(folder / "deep/er/out/sub/a.txt"), "a");
  EXPECT_THAT(names_in(folder / "deep/er"), ElementsAre("out"));
}

TEST(AtomicFolderTest, ReplacesFilesAndKeepsTheUsersOwn) {
  TemporaryFolder folder;
  write_text(folder / "out/model.onnx", "old");
  write_text(folder / "out/notes/mine.txt", "mine");
  fs::create_symlink("notes/mine.txt", folder / "out/link");

  AtomicFolder out(folder / "out", {.durability = Durability::kDurable});
  write_text(out.path() / "model.onnx", "new");
  out.commit();

  EXPECT_EQ(read_text(folder / "out/model.onnx"), "new");
  EXPECT_EQ(read_text(folder / "out/notes/mine.txt"), "mine");
  EXPECT_EQ(fs::read_symlink(folder / "out/link"), "notes/mine.txt");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("out"));
}

TEST(AtomicFolderTest, DropsWhatTheCallerDoesNotKeep) {
  TemporaryFolder folder;
  write_text(folder / "out/decode.onnx", "stale");
  write_text(folder / "out/tokenizer.json", "mine");

  AtomicFolder out(folder / "out", {.keep = [](const fs::path& path) { return path.extension() != ".onnx"; }});
  write_text(out.path() / "model.onnx", "new");
  out.commit();

  EXPECT_THAT(names_in(folder / "out"), ElementsAre("model.onnx", "tokenizer.json"));
}

TEST(AtomicFolderTest, AFailedWriteLeavesTheOldFolderWhole) {
  TemporaryFolder folder;
  write_text(folder / "out/model.onnx", "old");
  EXPECT_THROW(
      {
        AtomicFolder out(folder / "out");
        write_text(out.path() / "model.onnx", "half");
        throw std::runtime_error("the exporter failed");
      },
      std::runtime_error);
  EXPECT_EQ(read_text(folder / "out/model.onnx"), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("out"));
}

TEST(AtomicFolderTest, AKilledWriteLeavesTheOldFolderWholeAndTheNextCleansUp) {
  TemporaryFolder folder;
  write_text(folder / "out/model.onnx", "old");
  run_and_kill([&] {
    auto* out = new AtomicFolder(folder / "out");
    write_text(out->path() / "model.onnx", "half");
  });
  EXPECT_EQ(read_text(folder / "out/model.onnx"), "old");

  AtomicFolder out(folder / "out");
  write_text(out.path() / "model.onnx", "new");
  out.commit();

  EXPECT_EQ(read_text(folder / "out/model.onnx"), "new");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("out"));
}

// At every moment there is a folder at the target, and all of its files are of one write.
TEST(AtomicFolderTest, AReaderNeverSeesAMixture) {
  TemporaryFolder folder;
  auto write = [&](const std::string& text) {
    AtomicFolder out(folder / "out");
    write_text(out.path() / "a", text);
    write_text(out.path() / "b", text);
    out.commit();
  };
  write("0");
  std::atomic<bool> stop{false};
  int absent = 0;
  int seen = 0;
  std::thread reader([&] {
    while (!stop) {
      int fd = ::open((folder / "out").c_str(), O_RDONLY | O_DIRECTORY);
      absent += fd < 0;
      ++seen;
      ::close(fd);
    }
  });
  for (int i = 1; i <= 200; ++i) {
    write(std::to_string(i));
  }
  stop = true;
  reader.join();
  EXPECT_GT(seen, 0);
  EXPECT_EQ(absent, 0);
  EXPECT_EQ(read_text(folder / "out/a"), "200");
}

TEST(AtomicFolderTest, WritersOfOneTargetDoNotDisturbEachOther) {
  TemporaryFolder folder;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        try {
          AtomicFolder out(folder / "out", {.keep = [](const fs::path&) { return false; }});
          write_text(out.path() / "a", std::to_string(t));
          write_text(out.path() / "b", std::to_string(t));
          out.commit();
        } catch (const Error&) {
          ++failures;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(read_text(folder / "out/a"), read_text(folder / "out/b"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("out"));
}

TEST(AtomicFolderTest, TargetsThatMustNotBeReplacedAreRefused) {
  TemporaryFolder folder;
  write_text(folder / "file", "x");
  EXPECT_THAT(error_of([&] { AtomicFolder out(folder / "file"); }), HasSubstr("it is a file"));
  EXPECT_THAT(error_of([&] { AtomicFolder out("."); }), HasSubstr("it is the current folder or one above it"));
  EXPECT_THAT(error_of([&] { AtomicFolder out(".."); }), HasSubstr("it is the current folder or one above it"));
  EXPECT_THAT(error_of([&] { AtomicFolder out("/"); }), HasSubstr("it is the current folder or one above it"));
  EXPECT_THAT(error_of([&] { AtomicFolder out(""); }), HasSubstr("without a name"));
  EXPECT_THAT(error_of([&] { AtomicFolder out(folder / "file/out"); }), HasSubstr("Not a directory"));
}

TEST(AtomicFolderTest, ALinkIsReplacedWhereItLeads) {
  TemporaryFolder folder;
  write_text(folder / "real/a.txt", "old");
  fs::create_directory_symlink("real", folder / "link");

  AtomicFolder out(folder / "link/");
  write_text(out.path() / "a.txt", "new");
  out.commit();

  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_text(folder / "real/a.txt"), "new");
}

TEST(RemoveUncommitted, TakesWhatIsNotInPlaceAndNothingElse) {
  TemporaryFolder folder;
  AtomicFile done(folder / "done");
  done.write("whole");
  done.commit();
  const auto end = [&] {
    AtomicFile file(folder / "file");
    file.write("half");
    AtomicFolder out(folder / "out");
    write_text(out.path() / "a.txt", "half");
    remove_uncommitted();
    std::_Exit(0);
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(0), "");

  EXPECT_THAT(names_in(folder.path()), ElementsAre("done"));
  EXPECT_EQ(read_text(folder / "done"), "whole");
}

TEST(RemoveUncommitted, OtherThreadsPlaceNothingAfterIt) {
  TemporaryFolder folder;
  write_text(folder / "out/a.txt", "old");
  const auto end = [&] {
    auto* out = new AtomicFolder(folder / "out");
    write_text(out->path() / "a.txt", "new");
    remove_uncommitted();
    std::thread([&] { out->commit(); }).detach();
    std::thread([&] { AtomicFile late(folder / "late"); }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::_Exit(0);
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(0), "");

  EXPECT_THAT(names_in(folder.path()), ElementsAre("out"));
  EXPECT_EQ(read_text(folder / "out/a.txt"), "old");
}

}  // namespace
}  // namespace exporters
