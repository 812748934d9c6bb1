#include "report/comparison.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "report/compared_side.h"
#include "search/random.h"
#include "tests/report/reported_cache.h"

using namespace moetune;
using moetune::testing::decode_config;
using moetune::testing::decode_key;
using moetune::testing::ReportedCache;

namespace {

Entry entry(const std::string& problem, double time, double spread = 0.002, const std::string& hardware = "H200") {
  return {.kernel = "k",
          .problem = problem,
          .hardware = hardware,
          .hardware_name = hardware,
          .time_us = time,
          .low_us = time * (1 - spread),
          .high_us = time * (1 + spread)};
}

double normal(Random& random) {
  return std::sqrt(-2 * std::log(1 - random.unit())) * std::cos(6.283185307179586 * random.unit());
}

}  // namespace

TEST_CASE("a clear difference is significant, one within the intervals or of a tie's width is not") {
  const std::vector<Entry> a = {entry("clear", 100), entry("slow", 100), entry("wide", 100, 0.1), entry("tie", 100),
                                entry("gone", 5)};
  const std::vector<Entry> b = {entry("clear", 90), entry("slow", 105), entry("wide", 95, 0.1), entry("tie", 100.2),
                                entry("new", 5)};
  const Comparison comparison = compare_entries(a, b, false);
  REQUIRE(comparison.pairs.size() == 4);
  const auto verdict = [&](const std::string& problem) {
    for (const ComparedPair& pair : comparison.pairs) {
      if (pair.a.problem == problem) return pair.verdict;
    }
    return Verdict::unsure;
  };
  CHECK(verdict("clear") == Verdict::faster);
  CHECK(verdict("slow") == Verdict::slower);
  CHECK(verdict("wide") == Verdict::same);
  CHECK(verdict("tie") == Verdict::same);
  CHECK(comparison.only_a.size() == 1);
  CHECK(comparison.only_b.size() == 1);
  CHECK(comparison.mean_ratio > 1);
}

TEST_CASE("times under different timings are no pair: they answer different questions") {
  std::vector<Entry> a = {entry("x", 100)}, b = {entry("x", 80), entry("x", 100)};
  b[0].timing = Timing::chained;
  b[0].stored_at = "2026-11-23T10:00:00Z";  // the later one
  const Comparison comparison = compare_entries(a, b, false);
  REQUIRE(comparison.pairs.size() == 1);
  CHECK(comparison.pairs[0].b.timing == Timing::overlapped);
  CHECK(comparison.pairs[0].verdict == Verdict::same);
  CHECK(comparison.only_b.size() == 1);
  CHECK(compare_entries(a, {b[0]}, true).pairs.empty());
}

TEST_CASE("contended times and times without an interval are unsure") {
  Entry contended = entry("x", 50);
  contended.contended = true;
  CHECK(compare_entries({entry("x", 100)}, {contended}, false).count(Verdict::unsure) == 1);
  Entry bare = entry("x", 50);
  bare.low_us = bare.high_us = 0;
  CHECK(compare_entries({entry("x", 100)}, {bare}, false).count(Verdict::unsure) == 1);
  Entry none = entry("x", 0);
  CHECK(compare_entries({entry("x", 100)}, {none}, false).pairs.empty());
}

TEST_CASE("of equal winners measured twice few are called different, and of changed ones nearly all") {
  Random random(11);
  std::size_t false_alarms = 0, runs_with_one = 0, found = 0;
  for (int run = 0; run < 200; ++run) {
    std::vector<Entry> a, b, slower;
    for (int i = 0; i < 50; ++i) {
      const std::string name = std::to_string(i);
      const double sampling = 0.002 / 1.96;
      const auto measured = [&](double time) {
        return entry(name, time * std::exp(std::hypot(sampling, kDrift) * normal(random)), 0.002);
      };
      a.push_back(measured(100));
      b.push_back(measured(100));
      slower.push_back(measured(103));
    }
    const Comparison same = compare_entries(a, b, false), changed = compare_entries(a, slower, false);
    const std::size_t wrong = same.count(Verdict::faster) + same.count(Verdict::slower);
    false_alarms += wrong;
    runs_with_one += wrong > 0;
    found += changed.count(Verdict::slower);
  }
  CHECK(runs_with_one <= 20);  // a false discovery rate of 5% is a probability of 5% if nothing differs
  CHECK(false_alarms <= 30);
  CHECK(found > 9900);
}

TEST_CASE("across hardware the problem alone pairs, and the latest of equal ones counts") {
  Entry old = entry("x", 80, 0.002, "H100"), fresh = entry("x", 60, 0.002, "H100");
  old.stored_at = "2026-11-20T00:00:00Z";
  fresh.stored_at = "2026-11-22T00:00:00Z";
  CHECK(compare_entries({entry("x", 50)}, {old, fresh}, false).pairs.empty());
  const Comparison comparison = compare_entries({entry("x", 50)}, {fresh, old}, true);
  REQUIRE(comparison.pairs.size() == 1);
  CHECK(comparison.pairs[0].b.time_us == 60);
  CHECK(compare_searches(entry("x", 50), entry("y", 60)).count(Verdict::slower) == 1);
}

TEST_CASE("sides are files, dates, GPUs and searches") {
  using Kind = ComparedSide::Kind;
  CHECK(parse_side("old.db").kind == Kind::file);
  CHECK(parse_side("file:2026-11-22").kind == Kind::file);
  CHECK(parse_side("2026-11-22").kind == Kind::date);
  CHECK(utc_text(parse_side("2026-11-22").until) == "2026-11-22T23:59:59Z");
  CHECK(utc_text(parse_side("2026-11-22T01:02:03Z").until) == "2026-11-22T01:02:03Z");
  CHECK(parse_side("gpu:H100").text == "H100");
  CHECK(parse_side("key:12").search == 12);
  for (const char* wrong : {"", "2026-13-22", "key:x", "key:", "key:0", "gpu:"})
    CHECK_THROWS_AS(parse_side(wrong), BadInput);
}

TEST_CASE("a date has the winners that held at its end") {
  ReportedCache made;
  const std::int64_t id = made.add(decode_key());
  made.winner(id, decode_config("6"), 120, "2001-11-18T10:00:00Z");
  made.winner(id, decode_config("4"), 90, "2026-11-20T10:00:00Z");
  const std::int64_t later = made.add(decode_key("2048"));
  made.winner(later, decode_config("4"), 50, "2026-11-21T10:00:00Z");
  const auto time_at = [&](const std::string& side) {
    const std::vector<Entry> entries = read_side(parse_side(side), made.cache());
    return entries.empty() ? 0 : entries.front().time_us;
  };
  CHECK(time_at("2001-11-17") == 0);
  // Replaced when this test stored the second, whatever the day.
  CHECK(time_at("2001-11-19") == 120);
  CHECK(read_side(parse_side("2099-01-01"), made.cache()).size() == 2);
  CHECK(time_at("2099-01-01") == 90);
  CHECK(time_at("key:2") == 50);
  CHECK(read_side(parse_side("gpu:H200"), made.cache()).size() == 2);
  CHECK_THROWS_AS(read_side(parse_side("gpu:B200"), made.cache()), BadInput);
  CHECK_THROWS_AS(read_side(parse_side("key:9"), made.cache()), BadInput);
}
