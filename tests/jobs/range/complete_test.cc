// A stored range table gets the cubins of today's defaults, with the shipped H100's tables as the example.
#include "jobs/range/complete.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "cache/cache.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"
#include "tuner/compile/compiler.h"

using namespace moetune;

namespace {

constexpr const char* kFamily = "hidden=4096,top_k=2";

// One table with its winner's cubin alone, as an older moetune with another default would have left it.
struct CompleteCase {
  TemporaryFolder folder;
  Cache cache = Cache::open(folder.file("cache.db"), Cache::Mode::create);
  FamilyRange shipped;
  RangeRecord record;

  CompleteCase() {
    const Cache pack = Cache::open(paths::source("packs/h100.pack"), Cache::Mode::read_only);
    const std::vector<FamilyRange> tables = pack.ranges.of_family("moe_combine", kFamily);
    REQUIRE_FALSE(tables.empty());
    shipped = tables.front();
    shipped.key.toolchain = Compiler({.architecture = "sm_90a"}).toolchain();  // whichever is here
    record = pack.ranges.record(shipped);
    REQUIRE(record.variants.size() > 1);
    record.variants.resize(1);
    record.progress = "{\"of\": \"a search\"}";
  }
  void put(RangeKey key) { cache.ranges.put(key, record); }

  std::vector<CompletedTable> complete(std::stop_token stop = {}) {
    std::vector<CompletedTable> done;
    complete_tables(
        cache, [&](const CompletedTable& table) { done.push_back(table); }, std::move(stop));
    return done;
  }
};

}  // namespace

TEST_CASE("a table gets the cubins of the defaults between its cells, and is else as it was") {
  CompleteCase at;
  at.put(at.shipped.key);
  const std::vector<CompletedTable> done = at.complete();
  REQUIRE(done.size() == 1);
  CHECK(done[0].left_out.empty());
  CHECK(done[0].refused.empty());
  CHECK(done[0].defaults > 0);
  CHECK_FALSE(done[0].added.empty());

  const FamilyRange after = at.cache.ranges.all().at(0);
  CHECK(after.key == at.shipped.key);
  CHECK(after.table == at.shipped.table);
  CHECK(after.stored_at == at.shipped.stored_at);
  CHECK(at.cache.ranges.progress(after.key) == at.record.progress);
  CHECK(at.cache.ranges.history(after.id).empty());
  const RangeRecord record = at.cache.ranges.record(after);
  CHECK(record.variants.size() == 1 + done[0].added.size());
  CHECK(record.variants[0].cubin == at.record.variants[0].cubin);
  for (const std::string& config : done[0].added) {
    const auto found = std::ranges::find(record.variants, config, &StoredLaunch::config);
    REQUIRE(found != record.variants.end());
    CHECK(found->cubin.size() > 64);
    CHECK_FALSE(found->interface.empty());
  }
  CHECK(at.complete().at(0).added.empty());  // nothing is missing any more
}

TEST_CASE("tables of another compiler and of recordings are left out, with the reason") {
  CompleteCase at;
  RangeKey other = at.shipped.key, recorded = at.shipped.key;
  other.toolchain = "nvrtc 9.0.1";
  recorded.hardware.origin = "replay:0123";
  at.put(other);
  at.put(recorded);
  std::string reasons;
  for (const CompletedTable& table : at.complete()) {
    CHECK(table.added.empty());
    reasons += table.left_out + "\n";
  }
  CHECK(reasons.find("it was compiled by nvrtc 9.0.1") != std::string::npos);
  CHECK(reasons.find("it is of a recording") != std::string::npos);
  for (const FamilyRange& range : at.cache.ranges.all()) CHECK(range.variants.size() == 1);
}

TEST_CASE("a stop leaves tables as they were, and the next call completes them") {
  CompleteCase at;
  at.put(at.shipped.key);
  std::stop_source stop;
  stop.request_stop();
  CHECK(at.complete(stop.get_token()).empty());
  CHECK(at.cache.ranges.all().at(0).variants.size() == 1);
  CHECK_FALSE(at.complete().at(0).added.empty());
}
