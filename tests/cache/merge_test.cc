// Merging cache files: which record of a key stays, and what a merge must never do.
#include "cache/merge.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "cache/check.h"
#include "cache/pack.h"
#include "cache/ranges.h"
#include "cache/winners.h"
#include "tests/cache/support.h"

using moetune::Cache;
using moetune::MergeResult;
using namespace cache_test;

namespace {

moetune::WinnerRecord timed_winner(int number, double low, double high, bool contended = false) {
  moetune::WinnerRecord record = winner(number);
  record.cubin = random_bytes(300, static_cast<std::uint64_t>(number));
  record.default_launch = winner(0);
  record.default_launch.cubin = random_bytes(300, 0);
  record.time_us = (low + high) / 2;
  record.interval_low_us = low;
  record.interval_high_us = high;
  record.contended = contended;
  record.stored_at = "2026-01-02T03:04:05Z";
  record.provenance = "{\"seed\": " + std::to_string(number) + "}";
  return record;
}

fs::path cache_of(const fs::path& file, const moetune::WinnerRecord& record, const std::string& problem = "batch=64") {
  Cache cache = Cache::open(file, Cache::Mode::create);
  cache.winners.put(cache.workloads.id(workload_key(problem), "head_dim=128"), record);
  return file;
}

MergeResult merged(const fs::path& into, const std::vector<fs::path>& files) {
  return moetune::merge_caches(into, files, {});
}

std::string winner_config(const fs::path& file, const std::string& problem = "batch=64") {
  const Cache cache = Cache::open(file, Cache::Mode::read_only);
  const auto id = cache.workloads.find(workload_key(problem));
  const auto found = id ? cache.winners.find(*id) : std::nullopt;
  return found ? found->config : "";
}

}  // namespace

TEST_CASE("a merge takes winners whole, with both cubins, and trials") {
  const TempDir dir;
  cache_of(dir / "a.db", timed_winner(1, 9, 10));
  {
    Cache cache = Cache::open(dir / "a.db", Cache::Mode::read_write);
    cache.trials.put(1, trial(1));
    cache.builds.put("d1", {"ok", "{}", "log", random_bytes(2'000, 1)});
    cache.trials.put_calibration(h200(), "read_tb_s", 4.6);
  }
  const MergeResult result = merged(dir / "new" / "into.db", {dir / "a.db"});
  CHECK(result.files == 1);
  CHECK(result.winners_added == 1);
  CHECK(result.trials_taken == 1);
  const Cache into = Cache::open(dir / "new" / "into.db", Cache::Mode::read_only);
  const moetune::WinnerRecord taken = into.winners.find(1).value(), original = timed_winner(1, 9, 10);
  CHECK(taken.cubin == original.cubin);
  CHECK(taken.default_launch.cubin == original.default_launch.cubin);
  CHECK(taken.default_launch.plan == original.default_launch.plan);
  CHECK(taken.provenance == original.provenance);
  CHECK(taken.stored_at == original.stored_at);
  CHECK(into.workloads.all()[0].family == "head_dim=128");
  CHECK(into.trials.of(1).size() == 1);
  CHECK(summary_of(into).builds == 0);
  CHECK_FALSE(into.trials.calibrations(h200()).contains("read_tb_s"));
  CHECK(check_cache(into).empty());
}

TEST_CASE("of two winners the sound one stays, then the one whose interval ends lower, or the later of equals") {
  const auto dated = [](moetune::WinnerRecord record, const std::string& date) {
    record.stored_at = date;
    return record;
  };
  const std::string later = "2026-01-03T00:00:00Z";
  struct Pair {
    moetune::WinnerRecord better, worse;
  };
  for (const Pair& pair : {Pair{timed_winner(1, 9, 10), dated(timed_winner(2, 11, 12), later)},
                           Pair{timed_winner(1, 9.9, 10), timed_winner(2, 5, 12)},  // of one second
                           Pair{dated(timed_winner(1, 5, 12), later), timed_winner(2, 9.9, 10)},
                           Pair{dated(timed_winner(1, 10, 12), later), timed_winner(2, 9, 10)},  // they touch
                           Pair{timed_winner(1, 20, 30), dated(timed_winner(2, 5, 6, true), later)},
                           Pair{dated(timed_winner(1, 5, 7, true), later), timed_winner(2, 5, 6, true)},
                           Pair{timed_winner(1, 5, 6), timed_winner(1, 5, 7)}}) {  // one configuration
    const TempDir dir;
    CAPTURE(pair.better.interval_high_us);
    cache_of(dir / "better.db", pair.better);
    cache_of(dir / "worse.db", pair.worse);
    fs::copy_file(dir / "better.db", dir / "one.db");
    fs::copy_file(dir / "worse.db", dir / "two.db");
    CHECK(merged(dir / "one.db", {dir / "worse.db"}).winners_kept == 1);
    CHECK(merged(dir / "two.db", {dir / "better.db"}).winners_replaced == 1);
    for (const char* file : {"one.db", "two.db"}) {
      const Cache cache = Cache::open(dir / file, Cache::Mode::read_only);
      CHECK(cache.winners.find(1)->interval_high_us == pair.better.interval_high_us);
      CHECK(check_cache(cache).empty());
    }
    CHECK(merged(dir / "two.db", {dir / "better.db"}).winners_equal == 1);
    CHECK(Cache::open(dir / "one.db", Cache::Mode::read_only).winners.history(1).empty());
    const auto history = Cache::open(dir / "two.db", Cache::Mode::read_only).winners.history(1);
    if (pair.better.config == pair.worse.config) {  // the same kernel with other times is no generation
      CHECK(history.empty());
      continue;
    }
    REQUIRE(history.size() == 1);
    CHECK(history[0].reason == "merge");
    CHECK(history[0].interval_high_us == pair.worse.interval_high_us);
  }
}

TEST_CASE("what reaches into the best interval counts, and not what reaches into one that does") {
  const auto dated = [](moetune::WinnerRecord record, const std::string& date) {
    record.stored_at = date;
    return record;
  };
  const TempDir dir;
  cache_of(dir / "best.db", dated(timed_winner(1, 1, 2), "2026-01-01T00:00:00Z"));
  cache_of(dir / "beside.db", dated(timed_winner(2, 1.5, 4), "2026-01-02T00:00:00Z"));
  cache_of(dir / "apart.db", dated(timed_winner(3, 3, 5), "2026-01-03T00:00:00Z"));
  std::vector<fs::path> files = {dir / "apart.db", dir / "beside.db", dir / "best.db"};
  int round = 0;
  do {
    const fs::path into = dir / ("into" + std::to_string(round++) + ".db");
    const MergeResult result = merged(into, files);
    CHECK(result.winners_added == 1);
    CHECK(result.winners_kept == 2);
    CHECK(winner_config(into) == "tile=2");
    CHECK(merged(into, files).winners_equal == 1);
    CHECK(winner_config(into) == "tile=2");
  } while (std::ranges::next_permutation(files).found);
}

TEST_CASE("the best of an interrupted search replaces no winner of a duel, whatever its time") {
  const TempDir dir;
  moetune::WinnerRecord provisional = timed_winner(2, 1, 2);
  provisional.provenance = R"({"provisional":true})";
  cache_of(dir / "whole.db", timed_winner(1, 9, 10));
  cache_of(dir / "interrupted.db", provisional);
  cache_of(dir / "contended.db", timed_winner(3, 0.1, 0.2, true));
  for (const moetune::MergeOrder order : {moetune::MergeOrder::faster, moetune::MergeOrder::later}) {
    fs::remove(dir / "into.db");
    moetune::merge_caches(dir / "into.db", {dir / "interrupted.db", dir / "contended.db"}, {}, order);
    CHECK(winner_config(dir / "into.db") == "tile=2");
    moetune::merge_caches(dir / "into.db", {dir / "whole.db", dir / "interrupted.db"}, {}, order);
    CHECK(winner_config(dir / "into.db") == "tile=1");
  }
}

TEST_CASE("by date the later of two sound winners stays, whatever the older one claims of its time") {
  const auto dated = [](moetune::WinnerRecord record, const std::string& date) {
    record.stored_at = date;
    return record;
  };
  const TempDir dir;
  cache_of(dir / "old.db", dated(timed_winner(1, 5, 6), "2026-01-01T00:00:00Z"));
  cache_of(dir / "reaching.db", dated(timed_winner(2, 9.5, 11), "2026-01-02T00:00:00Z"));
  cache_of(dir / "new.db", dated(timed_winner(3, 9, 10), "2026-01-03T00:00:00Z"));
  cache_of(dir / "beside.db", dated(timed_winner(4, 9, 11), "2026-01-03T00:00:00Z"));
  cache_of(dir / "contended.db", dated(timed_winner(5, 1, 2, true), "2026-01-04T00:00:00Z"));
  const auto by_date = [&](const fs::path& into, const std::vector<fs::path>& files) {
    return moetune::merge_caches(into, files, {}, moetune::MergeOrder::later);
  };
  fs::copy_file(dir / "old.db", dir / "a.db");
  CHECK(by_date(dir / "a.db", {dir / "new.db"}).winners_replaced == 1);
  CHECK(by_date(dir / "a.db", {dir / "old.db", dir / "contended.db"}).winners_kept == 2);
  CHECK(by_date(dir / "a.db", {dir / "reaching.db"}).winners_kept == 1);
  CHECK(by_date(dir / "a.db", {dir / "beside.db"}).winners_kept == 1);  // of the same second
  CHECK(winner_config(dir / "a.db") == "tile=3");
  CHECK(check_cache(Cache::open(dir / "a.db", Cache::Mode::read_only)).empty());
  CHECK(merged(dir / "a.db", {dir / "old.db"}).winners_replaced == 1);  // by time it is the old one again
}

TEST_CASE("results of a recording never meet those of a GPU") {
  const TempDir dir;
  cache_of(dir / "gpu.db", timed_winner(1, 9, 10));
  moetune::WorkloadKey recorded = workload_key();
  recorded.hardware.origin = "replay:1";
  {
    Cache cache = Cache::open(dir / "replay.db", Cache::Mode::create);
    cache.winners.put(cache.workloads.id(recorded, "head_dim=128"), timed_winner(2, 1, 2));
  }
  merged(dir / "gpu.db", {dir / "replay.db"});
  const Cache cache = Cache::open(dir / "gpu.db", Cache::Mode::read_only);
  CHECK(cache.winners.find(cache.workloads.find(workload_key()).value())->config == "tile=1");
  CHECK(cache.winners.find(cache.workloads.find(recorded).value())->config == "tile=2");
}

TEST_CASE("of two trials the sound one stays, then the exact one, then the one whose interval ends lower") {
  const auto record = [](double high, bool contended, const std::string& outcome = "ok") {
    moetune::TrialRecord one = trial(1);
    one.outcome = outcome;
    one.time_us = outcome == "crashed" ? 0 : 10;
    one.interval_low_us = high > 0 ? high - 1 : 0;
    one.interval_high_us = high;
    one.contended = contended;
    return one;
  };
  const std::vector<moetune::TrialRecord> order = {record(11, false), record(12, false), record(0, false, "too_slow"),
                                                   record(0, false, "crashed"), record(5, true)};
  for (std::size_t better = 0; better < order.size(); ++better) {
    for (std::size_t worse = better; worse < order.size(); ++worse) {
      const TempDir dir;
      for (const auto& [name, index] : {std::pair("a.db", better), {"b.db", worse}}) {
        Cache cache = Cache::open(dir / name, Cache::Mode::create);
        cache.trials.put(cache.workloads.id(workload_key()), order[index]);
      }
      for (const auto& [into, from] : {std::pair("a.db", "b.db"), {"b.db", "a.db"}}) {
        merged(dir / into, {dir / from});
        const auto trials = Cache::open(dir / into, Cache::Mode::read_only).trials.of(1);
        REQUIRE(trials.size() == 1);
        CHECK(trials[0].outcome == order[better].outcome);
        CHECK(trials[0].interval_high_us == order[better].interval_high_us);
      }
    }
  }
}

// What a merge leaves of a file: each row by its digest, without numbers.
std::string merged_rows(const fs::path& file) {
  std::string rows;
  for (const char* select : {"trials ORDER BY digest", "winners ORDER BY digest", "ranges ORDER BY digest",
                             "cubins ORDER BY digest", "hardware ORDER BY digest", "history ORDER BY digest",
                             "range_history ORDER BY digest", "builds ORDER BY digest", "calibrations ORDER BY digest"})
    rows += raw_text(file, std::string("SELECT group_concat(digest) FROM (SELECT digest FROM ") + select + ")") + ";";
  return rows + raw_text(file,
                         "SELECT group_concat(one) FROM (SELECT w.problem || o.outcome || o.trials AS one FROM"
                         " trial_counts o JOIN workloads w ON w.id = o.workload WHERE trials > 0 ORDER BY one)");
}

TEST_CASE("a new file, which begins as a copy of the first, holds what an empty one would") {
  const TempDir dir;
  const moetune::RangeKey table{"decode_attention", "head_dim=128", h200(), "s", "t"};
  for (const char* name : {"a.db", "b.db"}) {
    const int own = name == std::string("a.db") ? 0 : 10;
    Cache cache = Cache::open(dir / name, Cache::Mode::create);
    for (int i = 0; i < 4; ++i) {
      // Of the shared ones a.db's is better, then b.db's, then both are one.
      const std::string problem = i == 3 ? "batch=" + std::to_string(own) : "shared=" + std::to_string(i);
      const std::int64_t id = cache.workloads.id(workload_key(problem), "head_dim=128");
      for (int t = own; t < own + 12; ++t) cache.trials.put(id, trial(t));
      const double low = i == 0 ? 1 + own : i == 1 ? 21 - own : 3;
      cache.winners.put(id, timed_winner(90 + own, 50, 51));
      cache.winners.put(id, timed_winner(i == 2 ? 7 : i + own, low, low + 1));
    }
    for (int i = 0; i < 2; ++i)
      cache.ranges.put(table, {"table " + std::to_string(i + own), "progress", {winner(i + own)}, "", "{}"});
    cache.trials.put_calibration(h200(), "read_tb_s", 4.6);
    moetune::HardwareKey idle = h200();
    idle.sm_count = 7 + own;
    cache.trials.put_calibration(idle, "read_tb_s", 4.6);
    cache.builds.put("d1", {"ok", "{}", "log", random_bytes(2'000, 1)});
  }
  raw_sql(dir / "a.db", "INSERT INTO writing VALUES (1, '2026-01-02T03:04:05Z')");
  write_file(dir / "empty.db", "");
  for (const auto& files : {std::vector{dir / "a.db", dir / "b.db"}, {dir / "b.db", dir / "a.db"}}) {
    const MergeResult into_new = merged(dir / "new.db", files), into_empty = merged(dir / "empty.db", files);
    CHECK(into_new.winners_added == 5);
    CHECK(into_new.winners_added == into_empty.winners_added);
    CHECK(into_new.winners_replaced == into_empty.winners_replaced);
    CHECK(into_new.winners_kept == into_empty.winners_kept);
    CHECK(into_new.winners_equal == into_empty.winners_equal);
    CHECK(into_new.trials_taken == into_empty.trials_taken);
    CHECK(into_new.ranges_taken == into_empty.ranges_taken);
    CHECK(merged_rows(dir / "new.db") == merged_rows(dir / "empty.db"));
    CHECK(raw_text(dir / "new.db", "PRAGMA journal_mode") == "wal");
    {
      const Cache cache = Cache::open(dir / "new.db", Cache::Mode::read_only);
      CHECK(check_cache(cache).empty());
      CHECK_FALSE(cache.lacks_log());
    }
    for (const char* name : {"new.db", "empty.db"}) fs::remove(dir / name);
    write_file(dir / "empty.db", "");
  }
  for (const auto& [name, bytes] : dir.content()) CHECK_FALSE(says(name, "new.db"));
}

TEST_CASE("packs are merged as caches are") {
  const TempDir dir;
  cache_of(dir / "a.db", timed_winner(1, 9, 10));
  cache_of(dir / "b.db", timed_winner(2, 8, 12));
  merged(dir / "a.db", {dir / "b.db"});
  moetune::export_pack(Cache::open(dir / "a.db", Cache::Mode::read_only), dir / "a.pack", {});
  CHECK(merged(dir / "b.db", {dir / "a.pack"}).winners_replaced == 1);
  CHECK(winner_config(dir / "b.db") == "tile=1");
  CHECK(says(broken([&] { merged(dir / "a.pack", {dir / "b.db"}); }), "is a pack, which is only read"));
}

TEST_CASE("one unsound file among several, and nothing is touched") {
  const TempDir dir;
  cache_of(dir / "into.db", timed_winner(1, 9, 10));
  cache_of(dir / "good.db", timed_winner(2, 1, 2));
  cache_of(dir / "bad.db", timed_winner(3, 1, 2));
  moetune::export_pack(Cache::open(dir / "bad.db", Cache::Mode::read_only), dir / "bad.pack", {});
  for (const char* name : {"into.db", "bad.db"}) raw_sql(dir / name, "PRAGMA journal_mode = delete");
  write_file(dir / "notes.txt", "no cache at all");
  raw_sql(dir / "theirs.db", "CREATE TABLE theirs (x)");
  Cache::open(dir / "newer.db", Cache::Mode::create);
  raw_sql(dir / "newer.db", "PRAGMA journal_mode = delete; PRAGMA user_version = 99");
  raw_sql(dir / "bad.db", "UPDATE winners SET time_us = 1");
  raw_sql(dir / "bad.pack", "DELETE FROM winners");
  const auto before = dir.content();
  for (const auto& [name, words] : {std::pair("bad.db", "winner 1 (decode_attention batch=64): does not match"),
                                    {"bad.pack", "is missing"},
                                    {"notes.txt", "is not a moetune cache"},
                                    {"theirs.db", "another application's"},
                                    {"newer.db", "of a newer moetune"}}) {
    const std::string sentence = broken([&] { merged(dir / "into.db", {dir / "good.db", dir / name}); });
    CAPTURE(sentence);
    CHECK(says(sentence, words));
    CHECK(says(sentence, (dir / name).string()));
    CHECK(broken([&] { merged(dir / "none.db", {dir / "good.db", dir / name}); }) == sentence);
    CHECK(dir.content() == before);
  }
  moetune::RecordRules rules;
  rules.winner = [](const auto&, const moetune::WinnerRecord& one, auto) {
    return one.config == "tile=2" ? std::string("it is untrue") : std::string();
  };
  CHECK(says(broken([&] { moetune::merge_caches(dir / "into.db", {dir / "good.db"}, rules); }),
             "good.db: winner 1 (decode_attention batch=64): it is untrue; nothing was merged"));
  CHECK(dir.content() == before);
}

TEST_CASE("a file is not merged into itself, under any name, and a huge one not at all") {
  const TempDir dir;
  cache_of(dir / "a.db", timed_winner(1, 9, 10));
  raw_sql(dir / "a.db", "PRAGMA journal_mode = delete");
  fs::create_symlink(dir / "a.db", dir / "link.db");
  fs::create_hard_link(dir / "a.db", dir / "hard.db");
  write_file(dir / "huge.db", read_file(dir / "a.db"));
  fs::resize_file(dir / "huge.db", (std::uintmax_t{16} << 30) + 1);  // of holes
  for (const char* name : {"a.db", "link.db", "hard.db"}) {
    CHECK_THROWS_WITH_AS(merged(dir / "a.db", {dir / name}), doctest::Contains("is the file to merge into"),
                         moetune::BadInput);
  }
  CHECK_THROWS_WITH_AS(merged(dir / "a.db", {dir / "huge.db"}), doctest::Contains("larger than the 16 GiB"),
                       moetune::BadInput);
  CHECK_THROWS_WITH_AS(merged(dir / "a.db", {dir / "none.db"}), doctest::Contains("there is no cache at"),
                       moetune::BadInput);
}

TEST_CASE("a damaged winner of the destination gives way to any") {
  const TempDir dir;
  cache_of(dir / "into.db", timed_winner(1, 9, 10));
  cache_of(dir / "a.db", timed_winner(2, 20, 30));
  raw_sql(dir / "into.db", "UPDATE winners SET time_us = 1");
  CHECK(merged(dir / "into.db", {dir / "a.db"}).winners_added == 1);
  CHECK(winner_config(dir / "into.db") == "tile=2");
}

TEST_CASE("a disk that fills up in mid-merge leaves the destination as it was") {
  const TempDir dir;
  {
    Cache cache = Cache::open(dir / "big.db", Cache::Mode::create);
    for (int i = 0; i < 200; ++i) {
      moetune::WinnerRecord record = timed_winner(i, 1, 2);
      record.cubin = random_bytes(30'000, static_cast<std::uint64_t>(i));
      cache.winners.put(cache.workloads.id(workload_key("batch=" + std::to_string(i)), "f"), record);
    }
  }
  const fs::path into = dir / "disk" / "into.db";
  const auto outcome = on_small_disk(dir / "disk", 3 << 20, [&]() -> std::string {
    cache_of(into, timed_winner(999, 9, 10));
    const std::string sentence = broken([&] { merged(into, {dir / "big.db"}); });
    if (!says(sentence, "no space left for " + into.string())) return "said: " + sentence;
    const Cache cache = Cache::open(into, Cache::Mode::read_only);
    if (summary_of(cache).winners != 1 || summary_of(cache).workloads != 1) return "half of it is there";
    return check_cache(cache).empty() && cache.winners.find(1)->config == "tile=999" ? "" : "it is damaged";
  });
  if (outcome) {
    CHECK(*outcome == "");
  } else {
    MESSAGE("skipped: this machine does not let a test mount a tmpfs");
  }
}

TEST_CASE("what breaks the rules at the destination gives way to any, and counts as damaged for every reader") {
  const TempDir dir;
  moetune::RecordRules rules;
  rules.winner = [](const auto&, const moetune::WinnerRecord& one, auto) {
    return one.time_us < 1 ? std::string("it is untrue") : std::string();
  };
  rules.range = [](const moetune::FamilyRange& one) {
    return one.table == "forged" ? std::string("it is forged") : std::string();
  };
  const moetune::RangeKey key{"decode_attention", "f", h200(), "s", "t"};
  for (const char* name : {"into.db", "from.db"}) {
    const bool is_forged = name == std::string("into.db");
    Cache cache = Cache::open(dir / name, Cache::Mode::create);
    moetune::WinnerRecord one = winner(1);
    one.interface = "interface";
    one.time_us = one.interval_low_us = one.interval_high_us = is_forged ? 0.5 : 20;
    cache.winners.put(cache.workloads.id(workload_key(), "f"), one);
    cache.ranges.put(key, {is_forged ? "forged" : "sound", "", {winner(1)}, "", "{}"});
  }
  {
    Cache forged = Cache::open(dir / "into.db", Cache::Mode::read_only);
    CHECK(forged.winners.find(1)->time_us == 0.5);  // without rules
    forged.use_rules(rules);
    CHECK(says(broken([&] { forged.winners.find(1); }), "cannot be true (it is untrue)"));
    CHECK(forged.ranges.all().empty());
    CHECK(forged.ranges.of_family("decode_attention", "f").empty());
    REQUIRE(forged.ranges.judged().damaged.size() == 1);
    CHECK(forged.ranges.judged().damaged[0].what == "it is forged");
    CHECK_THROWS_AS(moetune::make_pack(forged, {}), moetune::NoWinners);
    CHECK(check_cache(forged, rules).size() == 2);
  }
  const moetune::MergeResult done = moetune::merge_caches(dir / "into.db", {dir / "from.db"}, rules);
  CHECK(done.winners_added == 1);
  CHECK(done.ranges_taken == 1);
  const Cache merged = Cache::open(dir / "into.db", Cache::Mode::read_only);
  CHECK(merged.winners.find(1)->time_us == 20);
  CHECK(merged.ranges.all()[0].table == "sound");
}
