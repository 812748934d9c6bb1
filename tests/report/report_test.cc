#include "report/report.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "cache/ranges.h"
#include "ranges/range_table.h"
#include "report/report_document.h"
#include "report/staleness.h"
#include "retune/plan.h"
#include "staleness/today.h"
#include "tests/report/reported_cache.h"

using namespace moetune;
using moetune::testing::decode_config;
using moetune::testing::decode_key;
using moetune::testing::ReportedCache;

namespace {

UtcSeconds at(const std::string& text) { return *parse_utc(text); }

Report report_of(ReportedCache& made, std::optional<std::string> kernel = std::nullopt) {
  return read_report(&made.cache(), {.selection = {.kernel = kernel.value_or("")}, .now = at("2026-11-23T10:00:00Z")});
}

bool mentions(const std::vector<std::string>& phrases, const std::string& part) {
  for (const std::string& phrase : phrases) {
    if (phrase.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a report has each workload with its interval, its provenance and what it gained") {
  ReportedCache made;
  const std::int64_t id = made.add(decode_key());
  made.trial(id, decode_config("6"), 120);
  made.trial(id, decode_config("4"), 90);
  made.trial(id, decode_config("3"), 0, "compile_failed");
  made.trial(id, decode_config("2"), 100);
  made.winner(id, decode_config("6"), 120, "2026-11-20T10:00:00Z");
  made.winner(id, decode_config("4"), 90, "2026-11-22T10:00:00Z");

  const Report report = report_of(made);
  REQUIRE(report.workloads.size() == 1);
  const WorkloadReport& one = report.workloads[0];
  CHECK(one.stored.best_us == 90);
  CHECK(one.low_us == doctest::Approx(89.91));
  CHECK(one.stored.speedup() == 2);
  CHECK(one.origin.strategy == "auto");
  CHECK(one.origin.trials == 24);
  CHECK(one.origin.driver == "580.1");
  REQUIRE(one.before.has_value());
  CHECK(one.gain() == doctest::Approx(120.0 / 90));
  CHECK(one.history.size() == 1);
  CHECK(one.stale.empty());
  CHECK(one.family == "dtype=f32,write=none,passes=1");

  CHECK(one.trials.total == 4);
  CHECK(one.trials.device_s == 8);
  CHECK(one.trials.shown.size() == 4);
  REQUIRE(one.trials.best.size() == 3);  // 120, 90, and where the search ended
  CHECK(one.trials.best[1].number == 2);
  CHECK(one.trials.best[1].device_s == 4);
  CHECK(one.trials.best[2].number == 4);
  CHECK(one.trials.best[2].time_us == 90);

  REQUIRE(report.hardware.size() == 1);
  CHECK(report.hardware[0].kernels[0].kernel == "decode_kernel");
  CHECK(report.hardware[0].kernels[0].parameters.trials == 0);  // four trials say nothing
  REQUIRE(report.advice.size() == 1);
  CHECK(report.advice[0].command == "moetune devices --calibrate");
}

TEST_CASE("what is stale is said with its reason") {
  ReportedCache made;
  WorkloadKey key = decode_key();
  key.source_digest = "of yesterday";
  const std::int64_t alone = made.add(key);
  made.winner(alone, decode_config("6"), 100);
  key.problem = "elements=2048,dtype=f32,write=none,passes=1";
  const std::int64_t replaced = made.add(key);
  made.winner(replaced, decode_config("6"), 100, "2026-11-01T10:00:00Z");
  const std::int64_t today = made.add(decode_key("2048"));
  made.winner(today, decode_config("4"), 80);
  key = decode_key("4096");
  key.toolchain = "nvrtc 12.9.1";
  made.winner(made.add(key), decode_config("4"), 80);
  const std::int64_t gone = made.add(decode_key("8192"));
  made.winner(gone, decode_config("5000"), 80);

  const Report report = report_of(made);
  REQUIRE(report.workloads.size() == 5);
  CHECK(mentions(report.workloads[0].stale, "the templates changed since"));
  CHECK(mentions(report.workloads[1].stale, "workload " + std::to_string(today) + " has today's templates"));
  CHECK(report.workloads[2].stale.empty());
  CHECK(report.workloads[2].before.has_value());  // the winner of yesterday's templates
  CHECK(report.workloads[2].gain() == doctest::Approx(1.25));
  CHECK(mentions(report.workloads[3].stale, "compiled with nvrtc 12.9.1, others with nvrtc 13.0.88"));
  // Of today's sources it cannot be: today's space does not have its configuration.
  CHECK(workload_notes(report.workloads[4]) == std::vector<std::string>{"damaged"});
  bool advised = false;
  for (const Advice& advice : report.advice) {
    advised = advised || (advice.reason == "workload 1 is stale, as are 2 more" &&
                          advice.command == "moetune search decode_kernel --problem " + decode_key().problem);
  }
  CHECK(advised);
}

TEST_CASE("a winner that was judged otherwise than today is stale, as it is for a night") {
  ReportedCache made;
  for (const std::string& judged : {TodaysMakings().judged(decode_key()), std::string("otherwise")}) {
    REQUIRE_FALSE(judged.empty());
    WinnerRecord winner = made.winner_record(decode_config("4"), 80, "2026-11-22T10:00:00Z");
    winner.provenance = nlohmann::json{{"strategy", "auto"}, {"judged", judged}}.dump();
    made.cache().winners.put(made.add(decode_key()), winner);
    const Report report = report_of(made);
    REQUIRE(report.workloads.size() == 1);
    CHECK(mentions(report.workloads[0].stale, "its inputs, checks or references changed since") ==
          (judged == "otherwise"));
  }
}

TEST_CASE("the judges of many winners are looked at if those of a few have changed") {
  const std::string today = TodaysMakings().judged(decode_key());
  const auto stale = [&](std::size_t changed, std::size_t most) {
    StoredSpaces spaces;
    std::vector<WorkloadReport> winners(9);
    for (std::size_t i = 0; i < winners.size(); ++i) {
      winners[i].stored.workload.key = decode_key();
      winners[i].stored.known = spaces.known(decode_key());
      winners[i].stored.best_config = decode_config("4");
      winners[i].stored.winner.emplace();
      winners[i].origin.judged = i == changed || i == 8 - changed ? "otherwise" : today;
    }
    find_stale(winners, spaces, Ledger(), most);
    return std::ranges::count_if(winners, [](const WorkloadReport& one) { return !one.stale.empty(); });
  };
  for (const std::size_t most : {0, 9, 10}) CHECK(stale(1, most) == 2);
  CHECK(stale(0, 3) == 2);  // the first, the middle and the last are looked at
  CHECK(stale(1, 3) == 0);
}

// Winners of every kind, in an order of their own.
static void add_mixture(ReportedCache& made, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_in = [&](std::uint64_t many) { return random() % many == 0; };
  const std::string judged = TodaysMakings().judged(decode_key("1024"));
  for (int number = 1; number <= 40; ++number) {
    WorkloadKey key = decode_key(std::to_string(1024 * number));
    if (one_in(4)) key.source_digest = "of yesterday";
    if (one_in(6)) key.toolchain = "nvrtc 12.9.1";
    if (one_in(6)) key.kernel = "saxpy";
    if (one_in(6)) key.hardware.name = "NVIDIA H100", key.hardware.sm_count = 114;
    if (one_in(8)) key.hardware.origin = "replay:abc";
    const std::int64_t id = made.add(key);
    made.trial(id, decode_config("3"), 200);
    if (one_in(6)) continue;
    if (one_in(3)) made.winner(id, decode_config("6"), 150, "2026-11-20T10:00:00Z");
    WinnerRecord winner = made.winner_record(decode_config(one_in(8) ? "5000" : "4"), 100 + number,
                                             format("2026-11-%02dT10:00:00Z", 1 + number % 22));
    if (one_in(6)) winner.time_us = -3;
    if (one_in(6)) winner.interval_high_us = winner.interval_low_us = 1;
    if (one_in(6)) winner.contended = true;
    winner.provenance = nlohmann::json{{"strategy", "auto"},
                                       {"trials", number},
                                       {"driver", one_in(3) ? "570.1" : "580.1"},
                                       {"provisional", one_in(4)},
                                       {"judged", one_in(3) ? judged : ""}}
                            .dump();
    if (one_in(3)) winner.timings = R"({"alone":{"time_us":90,"default_us":95,"fastest":"stages=6","fastest_us":80}})";
    made.cache().winners.put(id, winner);
  }
}

TEST_CASE("a brief report says what the whole one says of every winner") {
  std::set<std::string> notes;
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    CAPTURE(seed);
    ReportedCache made;
    add_mixture(made, seed);
    Document documents[2];
    for (const bool brief : {false, true}) {
      const Report report = read_report(&made.cache(), {.now = at("2026-11-23T10:00:00Z"), .brief = brief});
      for (const WorkloadReport& one : report.workloads)
        for (const std::string& note : workload_notes(one)) notes.insert(note);
      documents[brief] = report_document(report);
    }
    CHECK(documents[0].dump() == documents[1].dump());
  }
  for (const char* const note : {"contended", "damaged", "no cubin", "provisional", "stale"}) {
    CAPTURE(note);
    CHECK(notes.contains(note));
  }
}

TEST_CASE("no command is advised that could not run, and the last of two is another one") {
  ReportedCache made;
  WorkloadKey key = decode_key();
  key.kernel = "saxpy";  // of another moetune
  made.trial(made.add(key), decode_config("4"), 10);
  key = decode_key();
  key.hardware.origin = "replay:abc";  // a recording does not change
  made.trial(made.add(key), decode_config("4"), 10);
  const Report unknown = report_of(made);
  CHECK(unknown.workloads.size() == 2);
  CHECK(std::none_of(unknown.advice.begin(), unknown.advice.end(),
                     [](const Advice& one) { return one.command.starts_with("moetune search"); }));
  for (const char* elements : {"2048", "4096"}) made.trial(made.add(decode_key(elements)), decode_config("4"), 10);
  const Report report = report_of(made);
  CHECK(std::any_of(report.advice.begin(), report.advice.end(),
                    [](const Advice& one) { return one.reason == "workload 3 is unfinished, as is another one"; }));
}

TEST_CASE("what a night has kept under today's templates is no longer stale, and the search that lost is no loss") {
  ReportedCache made;
  WorkloadKey key = decode_key();
  key.source_digest = "of yesterday";
  key.toolchain = "nvrtc 12.9.1";
  const std::int64_t served = made.add(key);
  made.winner(served, decode_config("6"), 100);
  const std::int64_t lost = made.add(decode_key());  // a night's search, whose best lost the duel
  made.trial(lost, decode_config("4"), 101);
  const Report before = report_of(made);
  CHECK(mentions(before.workloads[0].stale, "the templates changed since"));
  CHECK(workload_notes(before.workloads[1]) == std::vector<std::string>{"no cubin"});

  Ledger ledger(made.path() + "-retune-GPU-1234.json");
  LedgerEntry night{.made_with = TodaysMakings().of(decode_key()), .verdict = "kept"};
  night.made_with.driver = "590.2";  // the night's own
  night.at = seconds_of_date("2026-11-23T03:00:00Z");
  ledger.put(decode_key(), night);
  const Report after = report_of(made);
  CHECK(after.workloads[0].stale.empty());
  CHECK(after.workloads[1].kept == served);
  CHECK(workload_notes(after.workloads[1]) == std::vector<std::string>{"lost duel"});
  for (const Advice& advice : after.advice) CHECK(advice.command.find("moetune search") == std::string::npos);

  night.at = seconds_of_date("2026-11-21T03:00:00Z");  // before the winner was stored
  ledger.put(decode_key(), night);
  CHECK(mentions(report_of(made).workloads[0].stale, "the templates changed since"));
  night.at = seconds_of_date("2026-11-23T03:00:00Z");
  night.verdict = LedgerEntry::begun_verdict(Remedy::full);  // stopped: nothing is decided
  ledger.put(decode_key(), night);
  CHECK(mentions(report_of(made).workloads[0].stale, "the templates changed since"));
  night.verdict = "kept";
  night.made_with.sources = "of the day before";
  ledger.put(decode_key(), night);
  CHECK(mentions(report_of(made).workloads[0].stale, "the templates changed since"));
}

TEST_CASE("a winner that serves another GPU of the cache is marked, as the runtime would choose it") {
  ReportedCache made;
  WorkloadKey near = decode_key(), far = decode_key();
  near.hardware.name = "Near";
  near.hardware.sm_count = 120;
  far.hardware.name = "Far";
  far.hardware.sm_count = 60;
  WorkloadKey without = decode_key(), other = decode_key();
  without.hardware.name = "Without";
  without.hardware.sm_count = 114;
  other.hardware.name = "Older";
  other.hardware.compute_capability = 80;
  made.winner(made.add(near), decode_config("6"), 100);
  made.winner(made.add(far), decode_config("6"), 100);
  made.trial(made.add(without), decode_config("6"), 100);  // no winner of its own
  made.trial(made.add(other), decode_config("6"), 100);
  const Report report = report_of(made);
  REQUIRE(report.workloads.size() == 4);
  CHECK(report.workloads[0].inherited_by == std::vector<std::string>{"Without"});
  CHECK(report.workloads[1].inherited_by.empty());
  CHECK(workload_notes(report.workloads[0]) == std::vector<std::string>{"inherited"});
}

TEST_CASE("another driver makes a winner stale, and 13.10 comes after 13.9") {
  ReportedCache made;
  WorkloadKey key = decode_key();
  key.toolchain = "nvrtc 13.9.0";
  made.winner(made.add(key), decode_config("6"), 100);
  key = decode_key("2048");
  key.toolchain = "nvrtc 13.10.0";
  key.hardware.driver = "590.2";  // the last that was seen
  made.winner(made.add(key), decode_config("6"), 100);
  const Report report = report_of(made);
  CHECK(mentions(report.workloads[0].stale, "others with nvrtc 13.10.0"));
  CHECK(mentions(report.workloads[1].stale, "tuned with driver 580.1, the last seen is 590.2"));

  Ledger ledger(made.path() + "-retune-GPU-1234.json");
  LedgerEntry night{.made_with = TodaysMakings().of(decode_key()), .verdict = "kept"};
  night.made_with.driver = "570.1";
  night.at = seconds_of_date("2026-11-21T03:00:00Z");  // before the winners
  ledger.put(decode_key("4096"), night);
  CHECK(mentions(report_of(made).workloads[1].stale, "the last seen is 590.2"));
}

TEST_CASE("of two winners that were stored at once neither is the earlier one") {
  ReportedCache made;
  WorkloadKey key = decode_key();
  made.winner(made.add(key), decode_config("6"), 100);
  key.source_digest = "of yesterday";
  made.winner(made.add(key), decode_config("4"), 80);
  for (const WorkloadReport& one : report_of(made).workloads) CHECK_FALSE(one.before.has_value());
}

TEST_CASE("a kernel that nobody has is reported, and an unknown name is bad input") {
  ReportedCache made;
  WorkloadKey key{.kernel = "saxpy", .problem = "", .hardware = moetune::testing::h200()};
  key.hardware.origin = "replay:abc";
  const std::int64_t id = made.add(key);
  for (int x = 0; x < 30; ++x) made.trial(id, "x=" + std::to_string(x % 5) + ",y=" + std::to_string(x / 5), 10 + x % 5);
  const Report report = report_of(made, "saxpy");
  REQUIRE(report.workloads.size() == 1);
  CHECK(report.workloads[0].recorded());
  CHECK(report.workloads[0].stale.empty());
  CHECK(hardware_title(report.hardware[0].hardware) == "NVIDIA H200 (recorded)");
  const ParameterReport& parameters = report.hardware[0].kernels[0].parameters;
  CHECK(parameters.trials == 30);
  CHECK(parameters.factors[parameters.importance.main[0].factor].name == "x");
  CHECK(parameters.importance.main[0].share > 0.9);
  REQUIRE(parameters.maps.size() == 1);
  CHECK(parameters.maps[0].cells.size() == 30);
  CHECK(report.advice.empty());  // a recording does not change
  CHECK_THROWS_AS(report_of(made, "saxpi"), BadInput);
  CHECK(read_report(nullptr, {}).workloads.empty());
}

TEST_CASE("of many trials the improvements, the fastest and some others are kept") {
  std::vector<TrialRecord> trials;
  for (int i = 0; i < 20'000; ++i) {
    const double time = i == 17'171 ? 1 : 100 + (i * 7919 % 1000);
    trials.push_back({.config = "x=" + std::to_string(i), .outcome = "ok", .time_us = time});
  }
  trials[400].outcome = "too_slow";  // dropped after a look, whose time is no result
  trials[400].time_us = 0.5;
  const TrialSeries series = series_of(trials);
  CHECK(series.total == 20'000);
  CHECK(series.shown.size() <= kMostShownTrials);
  CHECK(series.shown.size() > kMostShownTrials / 2);
  bool best = false;
  for (const ShownTrial& trial : series.shown) best = best || trial.number == 17'172;
  CHECK(best);
  CHECK(series.best.back().time_us == 1);
  CHECK(evenly_spaced(10, 3) == std::vector<std::size_t>{0, 4, 9});
  CHECK(evenly_spaced(2, 5) == std::vector<std::size_t>{0, 1});
  CHECK(evenly_spaced(0, 5).empty());
}

TEST_CASE("records that make no sense do no harm") {
  ReportedCache made;
  const std::int64_t id = made.add(decode_key());
  made.cache().trials.put(id, {.config = "", .outcome = "nonsense", .time_us = -1, .facts = "[[", .provenance = "7"});
  made.cache().trials.put(id, {.config = decode_config("4"),
                               .outcome = "ok",
                               .time_us = 1e308,
                               .facts = R"({"measure_s":2,"validate_s":-4,"compile_s":"x"})",
                               .provenance = "{}"});
  made.cache().trials.put(id, {.config = decode_config("8"),
                               .outcome = "ok",
                               .time_us = 120,
                               .facts = R"({"measure_s":1e400})",
                               .provenance = "{}"});
  WinnerRecord winner = made.winner_record(decode_config("4"), 100, "yesterday");
  winner.provenance = R"({"strategy":7,"trials":"many","driver":[],"seed":1e99})";
  made.cache().winners.put(id, winner);
  const Report report = report_of(made);
  REQUIRE(report.workloads.size() == 1);
  CHECK(report.workloads[0].origin.strategy.empty());
  CHECK_FALSE(report.workloads[0].origin.trials.has_value());
  CHECK(report.workloads[0].trials.device_s == 2);
  CHECK(report.workloads[0].stored.damage.find("'yesterday', which is no time") != std::string::npos);
  CHECK(report.workloads[0].stored.best_us == 120);  // not what took 1e308
  CHECK(age_text("yesterday", report.now) == "-");
  CHECK(report_document(report)["workloads"][0]["provenance"]["trials"].is_null());
}

TEST_CASE("families become grids over the dimensions in which they differ most") {
  ReportedCache made;
  for (const char* batch : {"1", "4"}) {
    for (const char* context : {"512", "2048", "8192"}) {
      WorkloadKey key = decode_key();
      key.kernel = "decode_attention";
      key.source_digest = kernel_source_digest("decode_attention");
      key.problem = std::string("batch=") + batch + ",context=" + context;
      const std::int64_t id = made.add(key);
      made.trial(id, "splits=" + std::string(batch), 10);
    }
  }
  const Report report = report_of(made);
  REQUIRE(report.grids.size() == 1);
  const FamilyGrid& grid = report.grids[0];
  CHECK(grid.down == "batch");
  CHECK(grid.across == "context");
  CHECK(grid.rows == std::vector<std::int64_t>{1, 4});
  CHECK(grid.columns == std::vector<std::int64_t>{512, 2048, 8192});
  CHECK(grid.variants.size() == 2);
  REQUIRE(grid.cells[5].has_value());
  CHECK(grid.cells[5]->variant == 1);
}

TEST_CASE("ragged cells of a range stand in the lines of the full ones whose place they take") {
  ReportedCache made;
  RangeTable table{.ranges = "batch=1..8,context=1024..2048", .bound = 0.02, .kept = true};
  const auto add = [&](int batch, int context, const std::string& lengths) {
    const std::string problem = "batch=" + std::to_string(batch) +
                                ",q_heads=8,kv_heads=2,head_dim=64,context=" + std::to_string(context) + lengths;
    table.cells.push_back({problem, "splits=1", 10, 12, 10});
  };
  for (const int context : {1024, 2048}) {
    for (const int batch : {1, 4, 8}) add(batch, context, "");
    add(3, context, ",lengths=ragged");  // one sequence and nothing else: as a batch of one
    add(context == 1024 ? 8 : 9, context, ",lengths=ragged");
  }
  made.cache().ranges.put(
      {.kernel = "decode_attention", .family = "head_dim=64", .hardware = testing::h200(), .source_digest = "sources"},
      {.table = table.text(), .progress = "", .variants = {}});
  const Report report = report_of(made);
  REQUIRE(report.ranges.size() == 1);
  REQUIRE(report.ranges[0].grids.size() == 2);
  for (const ProblemGrid& grid : report.ranges[0].grids) {
    CAPTURE(grid.rest);
    const bool is_ragged = grid.rest == "lengths=ragged";
    CHECK(grid.rows == std::vector<std::int64_t>{1024, 2048});
    CHECK(grid.columns == (is_ragged ? std::vector<std::int64_t>{1, 4} : std::vector<std::int64_t>{1, 4, 8}));
    for (const auto& cell : grid.cells) CHECK(cell.has_value());
  }
  CHECK(report.ranges[0].cells[3].brief == "batch=3,context=1024,lengths=ragged");
}

TEST_CASE("times are read and ages told") {
  CHECK(utc_text(at("2026-02-28T23:59:59Z")) == "2026-02-28T23:59:59Z");
  for (const char* wrong :
       {"", "2026-02-30T00:00:00Z", "2026-11-22", "2026-11-22T25:00:00Z", "2026-11-22T10:00:00z",
        "2026-11-22T10:60:00Z", "2026-11-22T10:00:61Z", "2026-13-22T10:00:00Z", "2026-11-22T10:00:00ZZ",
        "2026- 1-22T10:00:00Z", "2026-+1-22T10:00:00Z", "-026-11-22T10:00:00Z", "2026-11-22 10:00:00Z"})
    CHECK_FALSE(parse_utc(wrong).has_value());
  const UtcSeconds now = at("2026-11-23T10:00:00Z");
  CHECK(age_text("2026-11-23T09:58:00Z", now) == "2 min");
  CHECK(age_text("2026-11-23T05:58:00Z", now) == "4 h");
  CHECK(age_text("2026-11-13T05:58:00Z", now) == "10 d");
  CHECK(age_text("2020-11-13T05:58:00Z", now) == "6 y");
  CHECK(age_text("2027-11-13T05:58:00Z", now) == "now");
}

TEST_CASE("a CSV has a line for each workload, and no cell is a formula") {
  ReportedCache made;
  WorkloadKey key = decode_key();
  key.kernel = "=cmd|'/c calc'!A1";
  key.problem = "a \"quoted\", text\nover lines";
  const std::int64_t id = made.add(key);
  made.trial(id, "x=1", 12.5);
  const std::string csv = report_csv(report_of(made));
  CHECK(csv.starts_with("key,kernel,problem,hardware,"));
  CHECK(csv.find("\r\n1,'=cmd|'/c calc'!A1,\"a \"\"quoted\"\", text\nover lines\",NVIDIA H200,gpu,x=1,12.5,") !=
        std::string::npos);
}
