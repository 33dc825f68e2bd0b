#include "exporters/fake/registry.h"

#include "exporters/fake/families.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <gtest/gtest.h>

#include <set>

namespace exporters {
namespace {

std::vector<ShapeEntry> built_in() {
  std::vector<ShapeEntry> entries;
  for (const auto family : families::all()) {
    const auto table = family();
    entries.insert(entries.end(), table.begin(), table.end());
  }
  return entries;
}

TEST(Registry, NoOpStandsInTwoTables) {
  std::set<std::string> seen;
  for (const ShapeEntry& entry : built_in()) {
    EXPECT_TRUE(seen.insert(entry.op).second) << entry.op << " is registered twice";
  }
}

TEST(Registry, EveryNameIsAnOpOfThisLibtorch) {
  std::set<std::string> known;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    known.insert(name.name);
    if (!name.overload_name.empty()) known.insert(name.name + "." + name.overload_name);
  }
  for (const ShapeEntry& entry : built_in()) {
    // transformers defines ops of its own in Python: they are met in a .pt2 of it.
    const bool is_pythons = std::string_view(entry.op).starts_with("transformers::");
    EXPECT_TRUE(is_pythons || known.contains(entry.op)) << entry.op;
  }
}

}  // namespace
}  // namespace exporters
