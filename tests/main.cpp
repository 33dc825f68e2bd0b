// Every test program runs in the project's root folder, wherever it was started, so that paths such as
// "tests/data/…" are the same in every checkout and never enter a compile command.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::error_code error;
  std::filesystem::current_path(EXPORTERS_PROJECT_DIR, error);
  if (error) {
    std::fprintf(stderr, "cannot enter %s: %s\n", EXPORTERS_PROJECT_DIR, error.message().c_str());
    return 1;
  }
  return RUN_ALL_TESTS();
}
