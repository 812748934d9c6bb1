// What a night decides, without a device: staleness, value, triage, duels, deadlines.
#include <doctest/doctest.h>

#include <cstdlib>
#include <ctime>

#include "base/error.h"
#include "retune/contest.h"
#include "retune/deadline.h"
#include "retune/rework.h"
#include "search/random.h"
#include "staleness/staleness.h"
#include "staleness/triage.h"
#include "tests/tuner/scripted_device.h"

using namespace moetune;

namespace {

constexpr std::int64_t kNow = 1'800'000'000, kDay = 86400;
const MadeWith kToday{"s2", "p2", "nvrtc 13.0", "580"};

std::vector<StaleCause> causes_of(MadeWith then, std::int64_t age_s = 0, double max_age_s = 0, bool contended = false) {
  return stale_causes(Incumbent{std::move(then), contended, kNow - age_s}, kToday, kNow, max_age_s);
}

TrialResult timed_result(double us, double width = 0.002) {
  TrialResult result;
  result.measurement.median_us = us;
  result.measurement.low_us = us * (1 - width);
  result.measurement.high_us = us * (1 + width);
  return result;
}

ProbeReading reading_of(double winner_now, const std::vector<double>& others_now) {
  ProbeReading reading{{100, timed_result(winner_now)}, {}};
  for (std::size_t i = 0; i < others_now.size(); ++i)
    reading.others.push_back({102 + 3 * static_cast<double>(i), timed_result(others_now[i])});
  return reading;
}

TrialResult sampled(const std::vector<double>& samples) {
  TrialResult result = timed_result(samples[samples.size() / 2]);
  result.measurement.samples_us = samples;
  return result;
}

}  // namespace

TEST_CASE("each cause of staleness is found alone, and nothing else is one") {
  using C = StaleCause;
  CHECK(causes_of(kToday).empty());
  CHECK(stale_causes(std::nullopt, kToday, kNow, 0) == std::vector{C::missing});
  CHECK(causes_of(kToday, 0, 0, true) == std::vector{C::contended});
  CHECK(causes_of({"s1", "p2", "nvrtc 13.0", "580"}) == std::vector{C::sources});
  CHECK(causes_of({"s2", "p1", "nvrtc 13.0", "580"}) == std::vector{C::space});
  CHECK(causes_of({"s2", "p2", "nvrtc 12.9", "580"}) == std::vector{C::compiler});
  CHECK(causes_of({"s2", "p2", "nvrtc 13.0", "575"}) == std::vector{C::driver});
  CHECK(stale_causes(Incumbent{{"s2", "p2", "nvrtc 13.0", "580", "by another"}},
                     {"s2", "p2", "nvrtc 13.0", "580", "by this"}, kNow, 0) == std::vector{C::judge});
  CHECK(causes_of({"s2", "p2", "nvrtc 13.0", "580", "by this"}).empty());
  CHECK(causes_of({"s2", "", "nvrtc 13.0", ""}).empty());  // what is not known has not changed
  CHECK(causes_of(kToday, 30 * kDay, 0).empty());
  CHECK(causes_of(kToday, kNow, 30.0 * kDay).empty());  // examined at a time that is not known
  CHECK(causes_of(kToday, 30 * kDay, 31.0 * kDay).empty());
  CHECK(causes_of(kToday, 30 * kDay, 30.0 * kDay) == std::vector{C::age});
  CHECK(causes_of({"s1", "p1", "nvrtc 12.9", "575"}, 9 * kDay, 7.0 * kDay) ==
        std::vector{C::sources, C::space, C::compiler, C::driver, C::age});
}

TEST_CASE("what is missing is worth most, and what is old more with every day") {
  CHECK(expected_gain({StaleCause::missing}, 0.4) == 0.4);
  CHECK(expected_gain({StaleCause::driver, StaleCause::sources}, 0.4) > expected_gain({StaleCause::driver}, 0.4));
  CHECK(expected_gain({}, 0.4) == 0);
  const Incumbent old{kToday, false, kNow - 20 * kDay}, older{kToday, false, kNow - 40 * kDay};
  CHECK(staleness({StaleCause::age}, old, kNow, 10.0 * kDay) == doctest::Approx(2));
  CHECK(staleness({StaleCause::age}, older, kNow, 10.0 * kDay) == doctest::Approx(4));
  CHECK(staleness({StaleCause::driver}, older, kNow, 10.0 * kDay) == 1);
}

TEST_CASE("triage: drift of all is kept, the winner's own loss is patched, another order is searched afresh") {
  const auto remedy = [](double winner, const std::vector<double>& others) {
    return triage(reading_of(winner, others)).remedy;
  };
  const std::vector<double> same = {102, 105, 108, 111, 114};
  CHECK(remedy(100, same) == Remedy::keep);
  CHECK(remedy(110, {112.2, 115.5, 118.8, 122.1, 125.4}) == Remedy::keep);  // a slower clock
  CHECK(remedy(110, same) == Remedy::patch);
  CHECK(triage(reading_of(110, same)).lost == doctest::Approx(0.1));
  CHECK(remedy(100, {90, 105, 108, 111, 114}) == Remedy::patch);
  CHECK(remedy(100, {120, 90, 150, 80, 114}) == Remedy::full);
  CHECK(remedy(100, {102, 105}) == Remedy::full);
  ProbeReading unsure = reading_of(100, {90, 105, 108, 111, 114});
  unsure.others[0].now = timed_result(90, 0.12);  // an interval that reaches the winner's
  CHECK(triage(unsure).remedy == Remedy::keep);
  ProbeReading gone = reading_of(100, same);
  gone.winner.now.outcome = Outcome::launch_failed;
  CHECK(triage(gone).remedy == Remedy::full);
  CHECK_FALSE(triage(gone).reason.empty());
}

TEST_CASE("a panel has the fastest, some of the rest and the default, each once and never the winner") {
  std::vector<OldTrial> trials;
  for (int i = 0; i < 100; ++i) trials.push_back({"c" + std::to_string(i), 100.0 + i});
  const std::vector<OldTrial> panel = choose_panel(trials, "c0", "c77");
  CHECK(panel.size() == kProbeSize - 1);
  CHECK(panel[0].config == "c77");
  CHECK(panel[1].config == "c1");
  for (const OldTrial& one : panel) CHECK(one.config != "c0");
  CHECK(choose_panel({{"a", 1}, {"b", 2}}, "a", "b").size() == 1);
  CHECK(choose_panel({}, "a", "b").empty());
  // Earlier winners come first, beside the ten, with their old time if they have one.
  std::vector<std::string> earlier = {"c0", "c50", "gone"};
  const std::vector<OldTrial> with_earlier = choose_panel(trials, "c0", "c77", earlier);
  REQUIRE(with_earlier.size() == kProbeSize - 1 + 2);
  CHECK(with_earlier[0].config == "c50");
  CHECK(with_earlier[0].time_us == 150);
  CHECK(with_earlier[1].config == "gone");
  CHECK(with_earlier[1].time_us == 0);
  CHECK(with_earlier[2].config == "c77");
  for (int i = 0; i < 20; ++i) earlier.push_back("old" + std::to_string(i));
  CHECK(choose_panel(trials, "c0", "c77", earlier).size() == kProbeSize - 1 + kProbedEarlier);
}

TEST_CASE("a duel is won beyond the noise alone") {
  std::vector<double> old, equal, slightly, faster;
  Random random(3);
  for (int i = 0; i < 41; ++i) {
    const double clock = 1 + 0.05 * i / 41;  // a drift that hits both
    old.push_back(100 * clock * (1 + 0.01 * (random.unit() - 0.5)));
    equal.push_back(100 * clock * (1 + 0.01 * (random.unit() - 0.5)));
    slightly.push_back(99.9 * clock * (1 + 0.01 * (random.unit() - 0.5)));
    faster.push_back(97 * clock * (1 + 0.01 * (random.unit() - 0.5)));
  }
  CHECK_FALSE(judge_duel(sampled(old), sampled(equal)).won);
  CHECK_FALSE(judge_duel(sampled(old), sampled(slightly)).won);
  CHECK(judge_duel(sampled(old), sampled(faster)).won);
  CHECK_FALSE(judge_duel(sampled(faster), sampled(old)).won);
  TrialResult failed = timed_result(50);
  failed.outcome = Outcome::wrong_result;
  CHECK_FALSE(judge_duel(timed_result(100), failed).won);
  CHECK(judge_duel(failed, timed_result(100)).won);
  CHECK(judge_duel(timed_result(100), timed_result(95)).won);
  CHECK_FALSE(judge_duel(timed_result(100, 0.1), timed_result(95, 0.1)).won);
}

TEST_CASE("a duel of fewer than six pairs is won by nobody") {
  for (std::size_t pairs = 1; pairs <= 8; ++pairs) {
    CAPTURE(pairs);
    TrialResult old = timed_result(100), fresh = timed_result(50);
    old.measurement.samples_us.assign(pairs, 100);
    fresh.measurement.samples_us.assign(pairs, 50);
    const Contest contest = judge_duel(old, fresh);
    CHECK(contest.won == (pairs >= 6));
    CHECK((contest.reason.find("a duel needs 6") == std::string::npos) == (pairs >= 6));
    old.measurement.samples_us.resize(20, 100);  // some of the challenger's rounds are missing
    CHECK(judge_duel(old, fresh).won == (pairs >= 6));
    old.measurement.samples_us.clear();
    CHECK_FALSE(judge_duel(old, fresh).won);
  }
}

namespace {

// Each takes its x in microseconds, and whoever runs second `second` times as long.
class OrderedDuels : public ScriptedDevice {
 public:
  std::vector<TrialResult> duel(const std::vector<Candidate>& pair, const DuelPolicy& policy) override {
    policies.push_back(policy);
    std::vector<TrialResult> results;
    for (const Candidate& one : pair) {
      order.push_back(one.config.text());
      const double us = 0.01 * static_cast<double>(one.config.number("x")) * (results.empty() ? 1 : second);
      results.push_back(sampled(std::vector<double>(8, us)));
    }
    return results;
  }
  double second = 1;
  std::vector<DuelPolicy> policies;
  std::vector<std::string> order;
};

}  // namespace

TEST_CASE("a night's duel is held in both orders, with proofs, and won beyond the tie in the worse one") {
  OrderedDuels device;
  const auto contest = [&](std::int64_t challenger, double second = 1, double least_us = 0) {
    const auto candidate = [](std::int64_t x) { return Candidate{.config = {{"x", Value::integer(x)}}}; };
    device.second = second;
    const Events events;
    QuietWatch watch(device, events, 0, {});
    return hold_contest(device, watch, candidate(10000), candidate(challenger), Timing::chained, least_us, 7);
  };
  const Contest won = contest(9500, 0.98);
  CHECK(won.won);
  CHECK(won.ratio == doctest::Approx(95.0 / 98));
  CHECK(device.order == std::vector<std::string>{"x=10000", "x=9500", "x=9500", "x=10000"});
  REQUIRE(device.policies.size() == 2);
  for (const DuelPolicy& policy : device.policies)
    CHECK(std::tuple(policy.rounds, policy.timing, policy.proves) == std::tuple(7, Timing::chained, true));
  CHECK_FALSE(contest(9900, 0.98).won);  // in one order alone
  CHECK_FALSE(contest(9971).won);
  CHECK(contest(9969).won);
  CHECK(contest(8000, 1, 100).won);
  CHECK_FALSE(contest(7999, 1, 100).won);  // faster than the GPU can be
  device.canary_answer = [] { return CanaryReading{.elapsed_us = 5000, .lost_us = 2500}; };
  CHECK(contest(5000).contended);
  CHECK_FALSE(contest(5000).won);
}

TEST_CASE("property: of two random noisy duels at most one side wins, and never the slower one by far") {
  Random random(11);
  for (int i = 0; i < 500; ++i) {
    const double ratio = 0.9 + 0.2 * random.unit();
    std::vector<double> a, b;
    for (int k = 0; k < 41; ++k) {
      a.push_back(100 * (1 + 0.04 * (random.unit() - 0.5)));
      b.push_back(100 * ratio * (1 + 0.04 * (random.unit() - 0.5)));
    }
    const bool forth = judge_duel(sampled(a), sampled(b)).won, back = judge_duel(sampled(b), sampled(a)).won;
    CHECK_FALSE((forth && back));
    if (ratio > 1.005) CHECK_FALSE(forth);
    if (ratio < 0.96) CHECK(forth);
  }
}

TEST_CASE("a deadline is the next time that the clock shows it") {
  setenv("TZ", "UTC", 1);
  tzset();
  const std::int64_t midnight = 1'799'971'200;  // 2027-01-15T00:00:00Z
  REQUIRE(midnight % kDay == 0);
  CHECK(next_time("06:00", midnight) == midnight + 6 * 3600);
  CHECK(next_time("06:00", midnight + 6 * 3600) == midnight + kDay + 6 * 3600);
  CHECK(next_time("00:00", midnight + 1) == midnight + kDay);
  CHECK(next_time("23:59", midnight + 23 * 3600) == midnight + 23 * 3600 + 59 * 60);
  for (const char* wrong : {"", "6", "24:00", "06:60", "06:00h", "-1:00", " 6:00", "06:00:00"})
    CHECK_THROWS_AS(next_time(wrong, midnight), BadInput);
}
