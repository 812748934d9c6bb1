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
  return find_kernel("decode_attention")
      .parse("q_heads=4,kv_heads=1,head_dim=64,page=16,batch=" + std::to_string(batch) +
             ",context=" + std::to_string(context));
}

// A cache with a table of batches from 2 to 64, and the key by which a night asks for it.
struct StandingTable {
  void put(const std::string& provenance = "{}") {
    cache.ranges.put(stored, {.table = table.text(),
                              .progress = "",
                              .variants = {fake_launch(problem_of(2, 64), plain_config(64))},
                              .stored_at = "",
                              .provenance = provenance});
  }
  auto find(const std::string& over, const Ledger& ledger = Ledger(), int context = 64) const {
    return find_standing_range(cache, ledger, key, {"decode_attention", problem_of(2, context).text(), over, 1});
  }

  const TemporaryFolder folder;
  Cache cache = Cache::open(folder.file("cache.db"), Cache::Mode::create);
  const Kernel& kernel = find_kernel("decode_attention");
  const HardwareKey hardware = fake_device().key;
  const RangeKey stored{"decode_attention", kernel.specialization(problem_of(1, 64)).text(),
                        hardware,           "sources",
                        "nvrtc 13.0",       Timing::chained};
  RangeTable table{.ranges = "batch=2..64",
                   .bound = 0.02,
                   .kept = true,
                   .cells = {{problem_of(64, 64).text(), plain_config(64), 10, 12, 10},
                             {problem_of(2, 64).text(), plain_config(64), 10, 12, 10}}};
  const WorkloadKey key{.kernel = "decode_attention",
                        .problem = "over it",
                        .hardware = hardware,
                        .source_digest = "sources",
                        .toolchain = "nvrtc 13.0",
                        .timing = Timing::chained};
};

}  // namespace

TEST_CASE("a table stands for a list's ranges if it serves all of them, and is tuned anew as wide as it is") {
  StandingTable known;
  known.put();
  const auto over_of_standing = [&](const std::string& over, int context = 64) -> std::string {
    const auto standing = known.find(over, Ledger(), context);
    return standing ? standing->over : "none";
  };
  CHECK(over_of_standing("batch=2..64") == "batch=2..64");
  CHECK(over_of_standing("batch=4..8") == "batch=2..64");
  CHECK(over_of_standing("batch=2..65") == "none");
  CHECK(over_of_standing("batch=1..8") == "none");
  CHECK(over_of_standing("batch=4..8", 128) == "none");
  CHECK(over_of_standing("batch=4..8,context=64..128") == "none");
}

TEST_CASE("a table whose shapes were judged otherwise than today is stale, and one that does not say is not") {
  StandingTable known;
  const Kernel& kernel = known.kernel;
  const std::string today =
      judged_of_ranges(kernel, served_ranges(kernel, known.table), problem_of(64, 64), known.hardware);
  CHECK(today == judged_of_ranges(kernel, served_ranges(kernel, parse_ranges("batch=2..64"), problem_of(9, 64)),
                                  problem_of(9, 64), known.hardware));
  REQUIRE_FALSE(today.empty());
  for (const std::string& judged : {std::string("otherwise"), today, std::string()}) {
    known.put(nlohmann::json{{"judged", judged}}.dump());
    const auto standing = known.find("batch=4..8");
    REQUIRE(standing);
    const MadeWith now{"sources", "", "nvrtc 13.0", "", standing->judged_today};
    const std::vector<StaleCause> causes = stale_causes(standing->incumbent, now, 0, 0);
    CHECK(causes == (judged == "otherwise" ? std::vector{StaleCause::judge} : std::vector<StaleCause>{}));
  }
}

TEST_CASE("a table that lost much at unseen shapes is stale until a night has searched on to the end") {
  StandingTable known;
  known.table.certificate = RangeCertificate::of({0.5, 0.4}, {-0.1, -0.1});
  known.put();
  CHECK(known.find("batch=2..64").value().regret == 0.5);
  Ledger ledger(known.folder.file("ledger"));
  LedgerEntry night{.made_with = {"sources", "", "nvrtc 13.0", ""}, .verdict = "stopped"};
  night.at = std::int64_t{1} << 40;
  ledger.put(known.key, night);
  CHECK(known.find("batch=2..64", ledger).value().regret == 0.5);
  night.verdict = "kept";
  ledger.put(known.key, night);
  CHECK(known.find("batch=2..64", ledger).value().regret == 0);
}

}  // namespace moetune::stale_ranges_test
