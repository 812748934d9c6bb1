// Where a launch's scratch lies in its workspace, and which launches are known again.
#include "runtime/launch_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "runtime/variant.h"

using namespace moetune;

namespace {

WorkspaceLayout layout_of(const std::vector<std::pair<std::int64_t, bool>>& scratches) {
  LaunchPlan plan;
  for (const auto& [bytes, zeroed] : scratches) plan.scratch.push_back({"scratch", bytes, zeroed});
  return WorkspaceLayout(plan);
}

LaunchKey key_of(std::uint64_t entry) {
  LaunchKey key{};
  key.entry = entry;
  return key;
}

}  // namespace

TEST_CASE("zeroed scratch lies in the workspace's zeroed beginning, and the rest behind it, aligned") {
  constexpr std::int64_t kCounters = kWorkspaceCounters;
  const WorkspaceLayout layout = layout_of({{100, true}, {1, false}, {257, true}, {512, false}, {4, true}});
  constexpr std::int64_t kOffsets[] = {0, kCounters, 256, kCounters + 256, 768};
  CHECK(std::ranges::equal(layout.offsets, kOffsets));
  CHECK(layout.counter_bytes == 1024);
  CHECK(layout.bytes == kCounters + 768);
  CHECK(layout_of({}).bytes == kCounters);
  CHECK(layout_of({{kCounters, true}, {2 * kCounters, false}}).fits());
  CHECK(layout_of({{kCounters - 256, true}, {256, true}}).fits());
  CHECK_FALSE(layout_of({{kCounters - 256, true}, {257, true}}).fits());
  CHECK_FALSE(layout_of({{kCounters + 1, true}}).fits());
}

TEST_CASE("what was launched is found again by all of its key, as long as there is room") {
  LaunchCache cache;
  std::mt19937_64 random(1);
  std::set<std::uint64_t> entries;
  while (entries.size() < 256) entries.insert(random());  // of 1024 places, of which each may take two
  for (const std::uint64_t entry : entries) {
    LaunchCache::Held place = cache.hold(key_of(entry));
    CHECK_FALSE(place.holds_key());
    LaunchCache::Held same = cache.hold(key_of(entry));  // which another thread wants meanwhile
    CHECK_FALSE(same.holds_key());
    place.fill({.key = key_of(entry), .checked = {}, .workspace_bytes = 1, .plan = {}});
  }
  std::size_t found = 0;
  for (const std::uint64_t entry : entries) {
    const LaunchCache::Held place = cache.hold(key_of(entry));
    if (!place.holds_key()) continue;
    ++found;
    CHECK(place.get()->key.entry == entry);
  }
  CHECK(found >= entries.size() * 95 / 100);
  const std::uint64_t last = *entries.rbegin();
  const auto is_known = [&](const auto& change) {
    LaunchKey key = key_of(last);
    change(key);
    return cache.hold(key).holds_key();
  };
  CHECK(is_known([](LaunchKey&) {}));
  CHECK_FALSE(is_known([](LaunchKey& key) { key.workspace = 256; }));
  CHECK_FALSE(is_known([](LaunchKey& key) { key.extents.back() = 1; }));
  CHECK_FALSE(is_known([](LaunchKey& key) { key.tensors.back() = 64; }));
  CHECK_FALSE(is_known([](LaunchKey& key) { key.call.reals.back() = 1; }));
}
