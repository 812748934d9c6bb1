// One workload's rework on a made-up GPU: what is decided, what is stored, and that a duel guards what is served.
#include "retune/rework.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>

#include "replay/noisy_device.h"

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

class MadeUpSubject : public ReworkSubject {
 public:
  explicit MadeUpSubject(const NoiseModel& model = {}, std::uint64_t seed = 1) : noise(model), seed_(seed) {
    for (ConfigId id = 0; id < space_.size(); ++id) {
      const auto point = space_.point(id);
      truth.push_back(
          {id, Outcome::ok, 100 * (1 + 0.03 * std::abs(point[0] - 7) + 0.05 * std::abs(point[1] - 4))});
    }
  }

  // The night begins: under the present truth and noise.
  ReworkResult run(const ReworkSettings& settings = {.quiet_wait_s = 0}) {
    device_ = std::make_unique<NoisyDevice>(space_, truth, noise, ++seed_);
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
    if (answer) {
      TuneResult result;
      result.best = Trial{.id = *answer,
                          .config = space_.config(*answer),
                          .result = device_->run({space_.config(*answer)}, {})};
      result.winner.config = result.best->config;
      return result;
    }
    TuneResult result = tune(request, {.device = *device_}, {});
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

  std::vector<std::string> rivals() override { return waiting; }
  void settle_duels() override { waiting.clear(); }
  void new_device() { device_ = std::make_unique<NoisyDevice>(space_, truth, noise, ++seed_); }

  double served_us() const { return truth[*served].time_us; }

  std::vector<Observation> truth;
  NoiseModel noise;
  std::optional<ConfigId> served;
  std::vector<OldTrial> trials;
  std::vector<std::string> waiting;  // for a duel
  std::optional<ConfigId> answer;    // what a search finds, instead of searching
  int stores = 0, searches = 0;

 private:
  LegalSpace space_ = small_space();
  std::uint64_t seed_;
  std::unique_ptr<NoisyDevice> device_;
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

TEST_CASE("a rival from a merge is dueled: the faster one is served, and no pair waits any more") {
  for (const bool rival_is_faster : {true, false}) {
    MadeUpSubject subject;
    REQUIRE(subject.run().verdict == ReworkVerdict::tuned);
    const ConfigId best = *subject.served, other = best == 0 ? 1 : 0;
    subject.truth[other].time_us = subject.truth[best].time_us * (rival_is_faster ? 0.95 : 1.05);
    subject.waiting = {subject.space().config(other).text(),
                       "x=99,y=99"};  // the second one is of another space
    const ReworkResult done = subject.run({.quiet_wait_s = 0, .duels_only = true});
    CHECK(done.verdict == (rival_is_faster ? ReworkVerdict::improved : ReworkVerdict::kept));
    CHECK(subject.served == (rival_is_faster ? other : best));
    CHECK(subject.searches == 0);
    CHECK(subject.waiting.empty());
    CHECK(done.replaced.empty() != rival_is_faster);
  }
}

TEST_CASE("a duel beside somebody else's work settles nothing") {
  MadeUpSubject subject;
  REQUIRE(subject.run().verdict == ReworkVerdict::tuned);
  const ConfigId best = *subject.served, other = best == 0 ? 1 : 0;
  subject.truth[other].time_us = subject.truth[best].time_us * 0.5;
  subject.waiting = {subject.space().config(other).text()};
  subject.noise.burst_chance = 1;
  subject.noise.canary_misses = 0;
  const ReworkResult done = subject.run({.quiet_wait_s = 0, .duels_only = true});
  CHECK(done.verdict == ReworkVerdict::postponed);
  CHECK(subject.served == best);
  CHECK(subject.waiting.size() == 1);
}

TEST_CASE("after the duels what else is stale is examined, and a rival's victory is not forgotten") {
  MadeUpSubject subject;
  REQUIRE(subject.run().verdict == ReworkVerdict::tuned);
  const ConfigId best = *subject.served, other = best == 0 ? 1 : 0;
  subject.truth[other].time_us = subject.truth[best].time_us * 0.9;
  subject.waiting = {subject.space().config(other).text()};
  const ReworkResult done = subject.run();
  CHECK(done.verdict == ReworkVerdict::improved);
  CHECK(done.triage);
  CHECK(subject.served_us() <= subject.truth[other].time_us);
}

TEST_CASE("a winner is checked by one duel on a sibling, where what it replaced may be faster") {
  MadeUpSubject sibling;
  sibling.served = ConfigId{100};
  const std::string served = sibling.space().config(100).text();
  const auto check = [&](const std::string& replaced, double ratio) {
    sibling.truth[100].time_us = 100;
    sibling.truth[50].time_us = sibling.truth[0].time_us = 100 * ratio;
    sibling.new_device();
    return check_on_sibling(sibling, served, replaced, {.quiet_wait_s = 0}, {}, {});
  };
  const std::string former = sibling.space().config(50).text();
  CHECK(check(former, 0.95).lost);
  CHECK_FALSE(check(former, 1.05).lost);
  CHECK(check(former, 1.05).held);
  CHECK_FALSE(check(former, 1.0).lost);
  CHECK(check("", 0.9).lost);  // there was none: the default, which is 0
  CHECK(check("", 0.9).other->config.text() == sibling.space().config(0).text());
  CHECK_FALSE(check("x=99,y=99", 0.5).held);
  CHECK_FALSE(check(served, 0.5).held);
  sibling.served = ConfigId{7};
  CHECK(check(former, 0.5).reason == "it is not the winner any more");
}
