// Which stored range table stands for the ranges of a list.
#include "retune/stale_ranges.h"

#include <doctest/doctest.h>

#include "cache/cache.h"
#include "jobs/range/served_ranges.h"
#include "kernels/registry.h"
#include "ranges/range_table.h"
#include "tests/runtime/fake_cache.h"
#include "tests/temporary_folder.h"

namespace moetune::stale_ranges_test {
using namespace testing;

namespace {

Problem problem_of(int batch, int context) {
  return parse_problem("decode_attention", find_kernel("decode_attention").schema(), nullptr,
                       "q_heads=4,kv_heads=1,head_dim=64,page=16,batch=" + std::to_string(batch) +
                           ",context=" + std::to_string(context));
}

}  // namespace

TEST_CASE("a table stands for a list's ranges if it serves all of them, and is tuned anew as wide as it is") {
  const TemporaryFolder folder;
  Cache cache = Cache::open(folder.file("cache.db"), Cache::Mode::create);
  const std::string family = find_kernel("decode_attention").specialization(problem_of(1, 64)).text();
  const RangeKey stored{"decode_attention", family,       fake_device().key,
                        "sources",          "nvrtc 13.0", Timing::chained};
  RangeTable table{.ranges = "batch=2..64", .bound = 0.02, .kept = true};
  for (const int batch : {2, 64})
    table.cells.push_back({problem_of(batch, 64).text(), plain_config(64), 10, 12, 10});
  cache.ranges.put(stored, {.table = table.text(),
                            .progress = "",
                            .variants = {fake_launch(problem_of(2, 64), plain_config(64))},
                            .stored_at = "",
                            .provenance = "{}"});
  WorkloadKey key{"decode_attention", "over it", fake_device().key, "sources", "nvrtc 13.0"};
  key.timing = Timing::chained;
  const auto over_of_standing = [&](const std::string& over, int context = 64) -> std::string {
    const auto standing = find_standing_range(cache, Ledger(), key,
                                              {"decode_attention", problem_of(2, context).text(), over, 1});
    return standing ? standing->over : "none";
  };
  CHECK(over_of_standing("batch=2..64") == "batch=2..64");
  CHECK(over_of_standing("batch=4..8") == "batch=2..64");
  CHECK(over_of_standing("batch=2..65") == "none");
  CHECK(over_of_standing("batch=1..8") == "none");
  CHECK(over_of_standing("batch=4..8", 128) == "none");
  CHECK(over_of_standing("batch=4..8,context=64..128") == "none");
}

TEST_CASE(
    "a table whose shapes were judged otherwise than today is stale, and one that does not say is not") {
  const TemporaryFolder folder;
  Cache cache = Cache::open(folder.file("cache.db"), Cache::Mode::create);
  const Kernel& kernel = find_kernel("decode_attention");
  const HardwareKey hardware = fake_device().key;
  const RangeKey stored{"decode_attention", kernel.specialization(problem_of(1, 64)).text(),
                        hardware,           "sources",
                        "nvrtc 13.0",       Timing::chained};
  RangeTable table{.ranges = "batch=2..64", .bound = 0.02, .kept = true};
  for (const int batch : {64, 2})
    table.cells.push_back({problem_of(batch, 64).text(), plain_config(64), 10, 12, 10});
  WorkloadKey key{"decode_attention", "over it", hardware, "sources", "nvrtc 13.0"};
  key.timing = Timing::chained;
  const std::string today =
      judged_of_ranges(kernel, served_ranges(kernel, table), problem_of(64, 64), hardware);
  CHECK(today == judged_of_ranges(kernel,
                                  served_ranges(kernel, parse_ranges("batch=2..64"), problem_of(9, 64)),
                                  problem_of(9, 64), hardware));
  REQUIRE_FALSE(today.empty());
  for (const std::string& judged : {std::string("otherwise"), today, std::string()}) {
    cache.ranges.put(stored, {.table = table.text(),
                              .progress = "",
                              .variants = {fake_launch(problem_of(2, 64), plain_config(64))},
                              .stored_at = "",
                              .provenance = nlohmann::json{{"judged", judged}}.dump()});
    const auto standing = find_standing_range(
        cache, Ledger(), key, {"decode_attention", problem_of(2, 64).text(), "batch=4..8", 1});
    REQUIRE(standing);
    const MadeWith now{"sources", "", "nvrtc 13.0", "", standing->judged_today};
    const std::vector<StaleCause> causes = stale_causes(standing->incumbent, now, 0, 0);
    CHECK(causes == (judged == "otherwise" ? std::vector{StaleCause::judge} : std::vector<StaleCause>{}));
  }
}

TEST_CASE("a table that lost much at unseen shapes is stale until a night has searched on to the end") {
  const TemporaryFolder folder;
  Cache cache = Cache::open(folder.file("cache.db"), Cache::Mode::create);
  const RangeKey stored{
      "decode_attention", find_kernel("decode_attention").specialization(problem_of(1, 64)).text(),
      fake_device().key,  "sources",
      "nvrtc 13.0",       Timing::chained};
  RangeTable table{.ranges = "batch=2..64", .bound = 0.02, .kept = true};
  for (const int batch : {64, 2})
    table.cells.push_back({problem_of(batch, 64).text(), plain_config(64), 10, 12, 10});
  table.certificate = RangeCertificate::of({0.5, 0.4}, {-0.1, -0.1});
  cache.ranges.put(stored, {.table = table.text(),
                            .progress = "",
                            .variants = {fake_launch(problem_of(2, 64), plain_config(64))},
                            .stored_at = "",
                            .provenance = "{}"});
  WorkloadKey key{"decode_attention", "over it", fake_device().key, "sources", "nvrtc 13.0"};
  key.timing = Timing::chained;
  const auto regret = [&](const Ledger& ledger) {
    return find_standing_range(cache, ledger, key,
                               {"decode_attention", problem_of(2, 64).text(), "batch=2..64", 1})
        .value()
        .regret;
  };
  CHECK(regret(Ledger()) == 0.5);
  Ledger ledger(folder.file("ledger"));
  LedgerEntry night{.made_with = {"sources", "", "nvrtc 13.0", ""}, .verdict = "stopped"};
  night.at = std::int64_t{1} << 40;
  ledger.put(key, night);
  CHECK(regret(ledger) == 0.5);
  night.verdict = "kept";
  ledger.put(key, night);
  CHECK(regret(ledger) == 0);
}

}  // namespace moetune::stale_ranges_test
