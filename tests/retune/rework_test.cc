// One workload's rework on a made-up GPU: what is decided, what is stored, and that a duel guards what is served.
#include "retune/rework.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <memory>

#include "retune/neighbourhood.h"
#include "retune/stale_ranges.h"
#include "tests/replay/noisy_device.h"

using namespace moetune;

namespace {

// 20 x 12 configurations whose best is (7, 4), smoothly.
LegalSpace small_space() {
  Parameter x{.name = "x"}, y{.name = "y"};
  for (int i = 0; i < 20; ++i) x.values.push_back(Value::integer(i));
  for (int i = 0; i < 12; ++i) y.values.push_back(Value::integer(i));
  std::vector<Position> rows;
  for (Position i = 0; i < 20; ++i)
    for (Position j = 0; j < 12; ++j) rows.insert(rows.end(), {i, j});
  return {{x, y}, rows};
}

// One configuration is wrong, whatever it takes.
class JudgedDevice : public NoisyDevice {
 public:
  using NoisyDevice::NoisyDevice;
  TrialResult verify(const Candidate& candidate, std::uint64_t, double) override {
    if (candidate.config.text() != wrong) return {};
    return {.outcome = Outcome::wrong_result, .message = "by the reference"};
  }
  std::string wrong;
};

class MadeUpSubject : public ReworkSubject {
 public:
  explicit MadeUpSubject(const NoiseModel& model = {}, std::uint64_t seed = 1) : noise(model), seed_(seed) {
    for (ConfigId id = 0; id < space_.size(); ++id) {
      const auto point = space_.point(id);
      truth.push_back({id, Outcome::ok, 100 * (1 + 0.03 * std::abs(point[0] - 7) + 0.05 * std::abs(point[1] - 4))});
    }
  }

  // The night begins: under the present truth and noise.
  ReworkResult run(const ReworkSettings& settings = {.quiet_wait_s = 0}) {
    device_ = std::make_unique<JudgedDevice>(space_, truth, noise, ++seed_);
    if (wrong) device_->wrong = space_.config(*wrong).text();
    stores = searches = 0;
    return rework(*this, settings, {}, {});
  }

  Device& device() override { return *device_; }
  const LegalSpace& space() override { return space_; }
  std::optional<ConfigId> default_id() override { return ConfigId{0}; }
  std::optional<Candidate> incumbent() override { return served ? prepare(*served) : std::nullopt; }
  std::vector<OldTrial> old_trials() override { return trials; }
  std::optional<Candidate> prepare(ConfigId id) override { return Candidate{.config = space_.config(id)}; }
  void open_device() override {}
  bool is_incumbent(const TuneResult& result) override { return result.best->id == served; }
  TuneResult search(Remedy remedy) override {
    ++searches;
    TuneRequest request;
    request.seed = seed_;
    request.budget = remedy == Remedy::full ? 80 : 30;
    request.quiet_wait_s = 0;
    request.space = &space_;
    if (cut_without_any) {
      TuneResult nothing;
      nothing.out_of_time = true;
      return nothing;
    }
    if (answer) {
      TuneResult result;
      result.out_of_time = cut;
      result.best =
          Trial{.id = *answer, .config = space_.config(*answer), .result = device_->run({space_.config(*answer)}, {})};
      result.winner.config = result.best->config;
      return result;
    }
    TuneResult result = tune(request, {.device = *device_}, {});
    result.out_of_time = cut;
    if (result.best) result.winner.config = result.best->config;
    found_.clear();
    for (const Trial& trial : result.trials)
      if (trial.result.outcome == Outcome::ok)
        found_.push_back({trial.config.text(), trial.result.measurement.median_us});
    return result;
  }
  void store(const TuneResult& result) override {
    ++stores;
    served = result.best->id;
    if (!answer) trials = found_;
  }

  double least_us() override { return least; }
  bool is_proven() override { return proven; }
  std::vector<std::string> earlier() override { return before; }
  void new_device() { device_ = std::make_unique<JudgedDevice>(space_, truth, noise, ++seed_); }

  double served_us() const { return truth[*served].time_us; }

  std::vector<Observation> truth;
  NoiseModel noise;
  std::optional<ConfigId> served;
  std::vector<OldTrial> trials;
  std::vector<std::string> before;            // served once
  std::optional<ConfigId> answer;             // what a search finds, instead of searching
  bool cut = false, cut_without_any = false;  // by the deadline
  int stores = 0, searches = 0;
  std::optional<ConfigId> wrong;
  bool proven = true;
  double least = 0;

 private:
  LegalSpace space_ = small_space();
  std::uint64_t seed_;
  std::unique_ptr<JudgedDevice> device_;
  std::vector<OldTrial> found_;
};

}  // namespace

TEST_CASE("what is missing is tuned and stored; the next night keeps it without a search") {
  MadeUpSubject subject;
  CHECK(subject.run().verdict == ReworkVerdict::tuned);
  REQUIRE(subject.served);
  CHECK(subject.served_us() < 106);
  const ReworkResult kept = subject.run();
  CHECK(kept.verdict == ReworkVerdict::kept);
  CHECK(kept.triage->remedy == Remedy::keep);
  CHECK(subject.searches == 0);
  CHECK(subject.stores == 0);
}

TEST_CASE("a winner that lost a tenth is replaced by one that wins the duels") {
  MadeUpSubject subject;
  subject.run();
  subject.truth[*subject.served].time_us *= 1.1;
  const double before = subject.served_us();
  const ReworkResult result = subject.run();
  CHECK(result.triage->remedy == Remedy::patch);
  CHECK(result.verdict == ReworkVerdict::improved);
  REQUIRE(result.contest);
  CHECK(result.contest->high < 0.997);
  CHECK(subject.served_us() < before);
}

TEST_CASE("a search that finds something slower changes nothing, however the night began") {
  MadeUpSubject subject;
  subject.run();
  const ConfigId best = *subject.served;
  for (ConfigId worse = 0; worse < 240; worse += 7) {
    if (subject.truth[worse].time_us < subject.truth[best].time_us * 1.002) continue;
    subject.answer = worse;
    const ReworkResult result = subject.run({.quiet_wait_s = 0, .resumed = Remedy::patch});
    CHECK(result.verdict == ReworkVerdict::kept);
    CHECK(subject.served == best);
  }
}

TEST_CASE("what is faster than its GPU can be is not stored, whether a search found it or it served before") {
  MadeUpSubject subject;
  subject.run();
  const ConfigId best = *subject.served;
  const ConfigId cheat = best == 0 ? 1 : 0;
  subject.truth[cheat].time_us = 5;
  subject.least = 90;
  subject.answer = cheat;
  CHECK(subject.run({.quiet_wait_s = 0, .resumed = Remedy::patch}).verdict == ReworkVerdict::kept);
  subject.answer.reset();
  subject.before = {LegalSpace(small_space()).config(cheat).text()};
  CHECK(subject.run().verdict == ReworkVerdict::kept);
  CHECK(subject.served == best);
  CHECK(subject.stores == 0);
  subject.least = 0;
  CHECK(subject.run().verdict == ReworkVerdict::improved);
  CHECK(subject.served == cheat);
}

TEST_CASE("control: without the duel noise would raise what is served, with it nothing does") {
  NoiseModel noise;
  noise.sample_sigma = 0.03;
  noise.launch_sigma = 0.02;
  double unguarded_rise = 0, guarded_rise = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    MadeUpSubject subject(noise, 100 * seed);
    subject.served = subject.space().find_text("x=7,y=4");
    const double before = subject.served_us();
    const ReworkResult result = subject.run({.quiet_wait_s = 0, .resumed = Remedy::patch});
    guarded_rise = std::max(guarded_rise, subject.served_us() / before - 1);
    if (result.verdict == ReworkVerdict::stopped) continue;
    MadeUpSubject trusting(noise, 100 * seed);
    if (trusting.run().verdict != ReworkVerdict::tuned) continue;  // stored as it was found
    unguarded_rise = std::max(unguarded_rise, trusting.served_us() / before - 1);
  }
  CHECK(guarded_rise == 0);
  CHECK(unguarded_rise > 0.005);
}

TEST_CASE("beside somebody else's work nothing is decided") {
  MadeUpSubject subject;
  subject.run();
  const ConfigId served = *subject.served;
  subject.noise.burst_chance = 1;
  subject.noise.canary_misses = 0;
  CHECK(subject.run().verdict == ReworkVerdict::postponed);
  subject.truth[served].time_us *= 1.2;
  CHECK(subject.run({.quiet_wait_s = 0, .resumed = Remedy::full}).verdict == ReworkVerdict::postponed);
  CHECK(subject.served == served);
}

TEST_CASE("a winner that no longer runs is replaced, and a space in which nothing runs fails") {
  MadeUpSubject subject;
  subject.run();
  const ConfigId served = *subject.served;
  subject.truth[served].outcome = Outcome::launch_failed;
  CHECK(subject.run().verdict == ReworkVerdict::improved);
  CHECK(subject.served != served);
  for (Observation& one : subject.truth) one.outcome = Outcome::launch_failed;
  const ReworkResult failed = subject.run();
  CHECK(failed.verdict == ReworkVerdict::failed);
  CHECK(subject.stores == 0);
}

TEST_CASE("a search that the deadline cuts is stored and stays unfinished, won or lost") {
  MadeUpSubject subject;
  subject.cut = true;
  const ReworkResult tuned = subject.run();
  CHECK(tuned.verdict == ReworkVerdict::tuned);
  CHECK(tuned.unfinished);
  CHECK(subject.stores == 1);
  CHECK(tuned.reason.find("the next night goes on") != std::string::npos);
  subject.truth[*subject.served].time_us *= 1.1;
  const ReworkResult improved = subject.run({.quiet_wait_s = 0, .resumed = Remedy::full});
  CHECK(improved.verdict == ReworkVerdict::improved);
  CHECK(improved.unfinished);
  const ConfigId best = *subject.served;
  subject.answer = best == 0 ? 1 : 0;
  subject.truth[*subject.answer].time_us = subject.served_us() * 1.2;
  const ReworkResult kept = subject.run({.quiet_wait_s = 0, .resumed = Remedy::full});
  CHECK(kept.verdict == ReworkVerdict::kept);
  CHECK(kept.unfinished);
  subject.cut = false;
  CHECK_FALSE(subject.run({.quiet_wait_s = 0, .resumed = Remedy::full}).unfinished);

  MadeUpSubject empty;
  empty.cut_without_any = true;
  CHECK(empty.run().verdict == ReworkVerdict::stopped);  // no failure: nothing was wrong but the time
}

TEST_CASE("a winner of before that is faster again comes back without a search, and a slower one does not") {
  for (const double ratio : {0.96, 1.04}) {
    MadeUpSubject subject;
    REQUIRE(subject.run().verdict == ReworkVerdict::tuned);
    const ConfigId best = *subject.served, other = best == 200 ? 201 : 200;
    subject.before = {"x=99,y=99", subject.space().config(other).text()};  // the first is of another space
    subject.truth[other].time_us = subject.truth[best].time_us * ratio;
    const ReworkResult result = subject.run();
    CHECK(subject.searches == 0);
    CHECK(subject.served == (ratio < 1 ? other : best));
    CHECK(result.verdict == (ratio < 1 ? ReworkVerdict::improved : ReworkVerdict::kept));
  }
}

TEST_CASE("a patch searches what differs from the winner in two parameters, and what it is given beside it") {
  std::vector<Parameter> parameters;
  for (const char* name : {"x", "y", "z"})
    parameters.push_back({.name = name, .values = {Value::integer(0), Value::integer(1), Value::integer(2)}});
  std::vector<Position> rows;
  for (Position i = 0; i < 27; ++i)
    rows.insert(rows.end(),
                {static_cast<Position>(i / 9), static_cast<Position>(i / 3 % 3), static_cast<Position>(i % 3)});
  const LegalSpace space(parameters, rows);
  const LegalSpace near = neighbourhood(space, "x=0,y=0,z=0", {"x=1,y=2,z=1", "x=9,y=0,z=0"});
  CHECK(near.size() == 1 + 6 + 12 + 1);
  CHECK(near.find_text("x=1,y=2,z=1"));
  CHECK_FALSE(near.find_text("x=1,y=1,z=1"));
  CHECK(neighbourhood(space, "x=7,y=0,z=0", {}).size() == 27);  // of another space: nothing is near
  TuneResult result;
  const ConfigId id = near.find_text("x=2,y=2,z=0").value();
  result.best = Trial{.id = id, .config = near.config(id)};
  result.trials = {*result.best};
  renumber(result, near, space);
  CHECK(space.config(result.best->id).text() == "x=2,y=2,z=0");
  CHECK(result.trials[0].id == result.best->id);
}

TEST_CASE("past the deadline neither a probe nor a duel waits for a quiet GPU") {
  MadeUpSubject subject;
  REQUIRE(subject.run().verdict == ReworkVerdict::tuned);
  const ConfigId best = *subject.served;
  subject.answer = best == 0 ? 1 : 0;
  subject.truth[*subject.answer].time_us = subject.served_us() * 0.8;
  subject.noise.burst_chance = 1;
  subject.noise.canary_misses = 0;
  for (const std::optional<Remedy> resumed : {std::optional<Remedy>(), std::optional(Remedy::full)}) {
    const auto begin = std::chrono::steady_clock::now();
    const ReworkResult result =
        subject.run({.quiet_wait_s = 120, .deadline = begin + std::chrono::milliseconds(200), .resumed = resumed});
    CHECK(result.verdict == ReworkVerdict::postponed);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
    CHECK(subject.served == best);
  }
}

TEST_CASE("a range whose time is up stays unfinished, and one without a table has not failed") {
  RangeResult found;
  CHECK(range_verdict(found).verdict == ReworkVerdict::failed);
  found.out_of_time = true;
  CHECK(range_verdict(found).verdict == ReworkVerdict::stopped);
  found.table.cells.emplace_back();
  CHECK(range_verdict(found).verdict == ReworkVerdict::tuned);
  CHECK(range_verdict(found).unfinished);
  found.out_of_time = false;
  CHECK_FALSE(range_verdict(found).unfinished);
}

TEST_CASE("a winner that today's reference refuses is replaced, however fast it is") {
  MadeUpSubject subject;
  subject.run();
  const ConfigId right = *subject.served;
  subject.served = subject.truth.size() - 1;
  subject.truth[*subject.served].time_us = 1;  // it skips its work
  subject.wrong = *subject.served;
  subject.proven = true;
  CHECK(subject.run().verdict == ReworkVerdict::kept);  // nothing says that it should be looked at
  subject.proven = false;
  subject.answer = right;
  const ReworkResult result = subject.run();
  CHECK(result.verdict == ReworkVerdict::improved);
  CHECK(result.reason == "the stored winner is wrong: by the reference");
  CHECK(subject.served == right);
  CHECK(subject.stores == 1);
  subject.wrong.reset();
  subject.answer.reset();
  CHECK(subject.run().verdict == ReworkVerdict::kept);
  CHECK(subject.searches == 0);
}
