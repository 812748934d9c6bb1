// Random caches, merged in every order, end with the same records; by date in every grouping too.
#include <doctest/doctest.h>

#include <random>

#include "cache/check.h"
#include "cache/digest_sql.h"
#include "cache/file/database.h"
#include "cache/merge.h"
#include "cache/pack.h"
#include "cache/ranges.h"
#include "tests/cache/support.h"
#include "tests/sanitized.h"

using moetune::Cache;
using moetune::Database;
using moetune::Query;
using namespace cache_test;

namespace {

// Few values of everything, so that times tie, intervals overlap and records recur in several caches.
class RandomCaches {
 public:
  explicit RandomCaches(const fs::path& folder, std::uint64_t seed) : folder_(folder), random_(seed) {
    Cache::open(folder_ / "blank.db", Cache::Mode::create);
    raw_sql(folder_ / "blank.db", "PRAGMA journal_mode = delete");
  }

  fs::path make(const std::string& name) {
    const fs::path file = blank(name);
    {
      Cache cache = Cache::open(file, Cache::Mode::read_write);
      for (int problem = 0; problem < 3; ++problem) {
        const std::int64_t id = cache.workloads.id(workload_key("batch=" + std::to_string(problem)), "f");
        for (int i = below(3); i > 0; --i) cache.trials.put(id, random_trial());
        if (below(4) > 0) cache.winners.put(id, random_winner());
      }
      for (const char* family : {"f", "g"}) {
        if (below(4) > 0) cache.ranges.put({"decode_attention", family, h200(), "s", "t"}, random_range());
      }
    }
    return file;
  }

  fs::path blank(const std::string& name) const {
    fs::copy_file(folder_ / "blank.db", folder_ / name, fs::copy_options::overwrite_existing);
    return folder_ / name;
  }

  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

 private:
  moetune::TrialRecord random_trial() {
    moetune::TrialRecord record = trial(below(3));
    record.interval_high_us = below(3);
    record.time_us = below(2);
    record.contended = below(3) == 0;
    return record;
  }

  moetune::RangeRecord random_range() {
    return {.table = std::to_string(below(5)),
            .progress = std::to_string(below(3)),
            .variants = {{"tile=1", "", "i", random_bytes(50, static_cast<std::uint64_t>(below(2)))}},
            .stored_at = below(2) == 0 ? "2026-01-01T00:00:00Z" : "2026-01-02T00:00:00Z"};
  }

  moetune::WinnerRecord random_winner() {
    moetune::WinnerRecord record = winner(below(4));
    record.cubin = random_bytes(50, static_cast<std::uint64_t>(below(3)));
    record.interval_high_us = 2 + below(8);
    record.interval_low_us = std::max(0.5, record.interval_high_us - below(6));
    record.time_us = record.interval_low_us;
    record.contended = below(4) == 0;
    if (below(4) == 0) record.provenance = R"({"provisional":true})";
    if (below(2) == 0) record.default_launch = record;
    record.stored_at = below(2) == 0 ? "2026-01-01T00:00:00Z" : "2026-01-02T00:00:00Z";
    return record;
  }

  fs::path folder_;
  std::mt19937_64 random_;
};

const moetune::RecordRules kMerits{.range_merit = [](const std::string& table) {
  const int figure = std::stoi(table);
  return moetune::RangeMerit{
      .contended = figure % 2 == 1, .coarseness = figure % 3, .regret = static_cast<double>(figure / 2)};  // ties too
}};

// Winners, trials and tables by key and content, whatever the numbers of their rows are. The progress of a
// range search is its file's own.
std::string state(const fs::path& file) {
  const Database database(file, Database::Access::read_only, std::chrono::seconds(5));
  std::string text;
  Query row = database.query("SELECT " MOETUNE_IDENTITY(
      "x.workload") " || x.what FROM ("
                    "SELECT workload, 'winner ' || config || digest AS what FROM winners UNION ALL"
                    " SELECT workload, 'trial ' || config || digest FROM trials) x ORDER BY 1");
  while (row.step()) text += row.text(0) + "\n";
  Query range = database.query(
      "SELECT 'range ' || g.family || g.plan || g.stored_at || (SELECT group_concat(c.digest) FROM range_cubins v"
      " JOIN cubins c ON c.id = v.cubin WHERE v.range = g.id) FROM ranges g ORDER BY 1");
  while (range.step()) text += range.text(0) + "\n";
  return text;
}

std::string progress_of(const fs::path& file) {
  const Database database(file, Database::Access::read_only, std::chrono::seconds(5));
  std::string text;
  Query row = database.query("SELECT family || progress FROM ranges ORDER BY 1");
  while (row.step()) text += row.text(0) + "\n";
  return text;
}

class Merges {
 public:
  explicit Merges(const RandomCaches& caches, moetune::MergeOrder order = moetune::MergeOrder::faster)
      : caches_(caches), order_(order) {}
  fs::path operator()(const std::vector<fs::path>& files) {
    const fs::path into = caches_.blank("merged" + std::to_string(made_++) + ".db");
    moetune::merge_caches(into, files, kMerits, order_);
    return into;
  }
  void start_again() { made_ = 0; }

 private:
  const RandomCaches& caches_;
  moetune::MergeOrder order_;
  int made_ = 0;
};

}  // namespace

namespace {

void check_laws(moetune::MergeOrder order) {
  const TempDir dir(TempDir::Place::memory);
  RandomCaches caches(dir.path(), 7);
  Merges merged(caches, order);
  int replaced = 0, tables = 0;
  const int triples = kSanitized ? 10 : 25;
  for (int round = 0; round < triples; ++round) {
    CAPTURE(round);
    merged.start_again();
    const fs::path a = caches.make("a.db"), b = caches.make("b.db"), c = caches.make("c.db");
    const fs::path all = merged({a, b, c});
    const std::string expected = state(all);
    REQUIRE(state(merged({c, a, b})) == expected);
    // Three records may reach into each other in a chain, so that grouping matters where dates do not decide.
    if (order == moetune::MergeOrder::later) {
      REQUIRE(state(merged({merged({a, b}), c})) == expected);
      REQUIRE(state(merged({a, merged({c, b})})) == expected);
    }
    const moetune::MergeResult again = moetune::merge_caches(all, {b, a, c}, kMerits, order);
    REQUIRE(state(all) == expected);
    REQUIRE(again.winners_added + again.winners_replaced + again.trials_taken + again.ranges_taken == 0);
    const std::string progress = progress_of(a);
    const moetune::MergeResult in_place = moetune::merge_caches(a, {c, b}, kMerits, order);  // into one of them
    for (std::size_t at = 0; at < progress.size(); at = progress.find('\n', at) + 1)
      REQUIRE(progress_of(a).find(progress.substr(at, 2)) != std::string::npos);
    REQUIRE(state(a) == expected);
    REQUIRE(check_cache(Cache::open(a, Cache::Mode::read_only)).empty());
    replaced += static_cast<int>(in_place.winners_replaced);
    tables += static_cast<int>(in_place.ranges_taken);
  }
  CHECK(replaced > triples / 2);
  CHECK(tables > triples / 2);
}

}  // namespace

TEST_CASE("merging is commutative and idempotent, by time and by date, and by date associative") {
  check_laws(moetune::MergeOrder::faster);
  check_laws(moetune::MergeOrder::later);
}
