// Simulated nights of `moetune retune` on recorded spaces: whether serving ever gets slower, what triage finds and how
// often it is wrong, and what a quiet night costs beside tuning. One JSON document on stdout; exit code 1 if a bar is
// missed. Run by scripts/simulate_nights.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "replay/shipped.h"
#include "retune/neighbourhood.h"
#include "retune/rework.h"
#include "tests/replay/noisy_device.h"
#include "tests/replay/other_hardware.h"

namespace moetune {
namespace {

constexpr double kMostRise = 0.005;
constexpr std::size_t kFullBudget = 100, kPatchBudget = kFullBudget / kPatchShare;
constexpr double kChangeChance = 0.1, kChangeStrength = 0.06;

struct World {
  explicit World(Recording read) : recording(std::move(read)) {
    for (ConfigId id = 0; id < recording.trials.size(); ++id)
      recorded.push_back(
          {id, recording.trials[id].outcome, static_cast<double>(recording.trials[id].time_us)});
    truth = recorded;
  }

  void serve(ConfigId id) {
    served = id;
    if (std::ranges::find(ever_served, id) == ever_served.end()) ever_served.push_back(id);
  }
  double served_us() const { return truth[*served].time_us; }
  // The best that was ever served, under the present conditions.
  double best_served_us() const {
    double best = INFINITY;
    for (const ConfigId id : ever_served) {
      if (truth[id].outcome == Outcome::ok) best = std::min(best, truth[id].time_us);
    }
    return best;
  }

  Recording recording;
  std::vector<Observation> recorded;
  std::vector<Observation> truth;  // under the present conditions, noise-free
  std::optional<ConfigId> served;
  std::vector<ConfigId> ever_served, earlier;  // earlier: what `served` replaced, latest first
  std::vector<OldTrial> old_trials;
};

// A workload of a simulated night.
class SimulatedSubject : public ReworkSubject {
 public:
  SimulatedSubject(World& world, const NoiseModel& noise, std::uint64_t seed)
      : world_(world), seed_(seed), device_(world.recording.space, world.truth, noise, seed) {}

  Device& device() override { return device_; }
  const LegalSpace& space() override { return world_.recording.space; }
  std::optional<ConfigId> default_id() override { return std::nullopt; }
  std::optional<Candidate> incumbent() override {
    return world_.served ? prepare(*world_.served) : std::nullopt;
  }
  std::vector<OldTrial> old_trials() override { return world_.old_trials; }
  std::vector<std::string> earlier() override {
    std::vector<std::string> configs;
    for (const ConfigId id : world_.earlier) configs.push_back(space().config(id).text());
    return configs;
  }
  std::optional<Candidate> prepare(ConfigId id) override { return Candidate{.config = space().config(id)}; }
  void open_device() override {}
  bool is_incumbent(const TuneResult& result) override { return result.best->id == world_.served; }

  TuneResult search(Remedy remedy) override {
    TuneRequest request;
    request.seed = seed_;
    request.budget = remedy == Remedy::full ? kFullBudget : kPatchBudget;
    request.quiet_wait_s = 0;
    request.problem.kernel = world_.recording.kernel;
    request.space = &space();
    std::optional<LegalSpace> near;
    if (remedy == Remedy::patch) request.space = &near.emplace(near_winner());
    History history{.distance = 0.25};
    for (const OldTrial& trial : world_.old_trials)
      if (const auto point = space().point_of(trial.config))
        history.trials.push_back({*point, Outcome::ok, trial.time_us});
    if (!history.trials.empty()) request.histories.push_back(std::move(history));
    TuneResult result = tune(request, {.device = device_}, {});
    if (near) renumber(result, *near, space());
    if (result.best) result.winner.config = result.best->config;
    std::vector<OldTrial> trials;
    for (const Trial& trial : result.trials)
      if (trial.result.outcome == Outcome::ok && !trial.result.contended)
        trials.push_back({trial.config.text(), trial.result.measurement.median_us});
    if (result.best) found_trials_ = std::move(trials);
    return result;
  }

  void store(const TuneResult& result) override {
    if (world_.served && world_.served != result.best->id) {
      std::erase(world_.earlier, *world_.served);
      world_.earlier.insert(world_.earlier.begin(), *world_.served);
    }
    world_.serve(result.best->id);
    world_.old_trials = std::move(found_trials_);
  }

  double device_s() const { return device_.measured_s(); }

 private:
  LegalSpace near_winner() {
    const std::string winner = space().config(*world_.served).text();
    std::vector<std::string> also = earlier();
    for (const OldTrial& one : choose_panel(world_.old_trials, winner, "")) also.push_back(one.config);
    return neighbourhood(space(), winner, also);
  }

  World& world_;
  std::uint64_t seed_;
  NoisyDevice device_;
  std::vector<OldTrial> found_trials_;
};

std::vector<World> make_worlds(std::size_t most) {
  std::vector<World> worlds;
  for (const ShippedRecording& shipped : list_shipped_recordings())
    if (worlds.size() < most) worlds.emplace_back(shipped.read());
  return worlds;
}

ReworkSettings settings() { return {.quiet_wait_s = 0}; }

// The first search, on a quiet GPU.
double tune_first(World& world, std::uint64_t seed) {
  world.served.reset();
  world.earlier.clear();
  SimulatedSubject subject(world, {}, seed);
  rework(subject, settings(), {}, {});
  return subject.device_s();
}

struct Nights {
  std::size_t nights = 0, reworks = 0, changes = 0, searches = 0;
  std::size_t rises = 0;   // over what was served that evening, by more than kMostRise
  std::size_t behind = 0;  // the best that was ever served, by more than kMostRise
  std::map<std::string, std::size_t> verdicts;
  double largest_rise = 0, largest_behind = 0;

  nlohmann::ordered_json document() const {
    return {{"nights", nights},
            {"reworks", reworks},
            {"changed_gpus", changes},
            {"forced_searches", searches},
            {"verdicts", verdicts},
            {"largest_rise_over_that_evening", largest_rise},
            {"rises_over_that_evening", rises},
            {"largest_rise_over_best_ever", largest_behind},
            {"rises_over_best_ever", behind}};
  }
};

NoiseModel noise_of_night(Random& random) {
  NoiseModel noise;
  noise.drift = 0.04 * random.unit();
  noise.sample_sigma = 0.005 + 0.02 * random.unit();
  if (random.unit() < 0.3) noise.burst_chance = 0.02;
  return noise;
}

void one_night(World& world, bool gpus_change, Nights& sum, Random& random) {
  ReworkSettings tonight = settings();
  const bool something_happens = random.unit() < kChangeChance;
  if (something_happens && gpus_change) {
    // Of the recording, not of the last change: changes that add up would end in a world that is nothing like it.
    world.truth =
        simulate_other_hardware(world.recording.space, world.recorded, random.next(), kChangeStrength);
    ++sum.changes;
  } else if (something_happens) {
    tonight.resumed = Remedy::full;  // a whole search, without a probe that would call it off
    ++sum.searches;
  }
  const NoiseModel noise = noise_of_night(random);
  const double evening_us = world.served_us(), best_us = world.best_served_us();
  SimulatedSubject subject(world, noise, random.next());
  const ReworkResult result = rework(subject, tonight, {}, {});
  ++sum.reworks;
  ++sum.verdicts[std::string(rework_verdict_name(result.verdict))];
  const double rise = world.served_us() / evening_us - 1, behind = world.served_us() / best_us - 1;
  sum.largest_rise = std::max(sum.largest_rise, rise);
  sum.rises += rise > kMostRise;
  sum.largest_behind = std::max(sum.largest_behind, behind);
  sum.behind += behind > kMostRise;
}

Nights simulate_nights(std::size_t nights, std::size_t workloads, bool gpus_change, std::uint64_t seed) {
  Random random(seed);
  std::vector<World> worlds = make_worlds(workloads);
  Nights sum;
  for (World& world : worlds) tune_first(world, random.next());
  for (; sum.nights < nights; ++sum.nights) {
    for (World& world : worlds) one_night(world, gpus_change, sum, random);
  }
  return sum;
}

struct TriageScore {
  std::size_t cases = 0, found = 0, false_alarms = 0;
  double probe_s = 0, tuning_s = 0;
};

// Each case: a first search, then a night without a change and one whose winner is `slower` than it was.
TriageScore score_triage(std::size_t cases, double slower, std::uint64_t seed) {
  Random random(seed);
  std::vector<World> worlds = make_worlds(6);
  TriageScore score;
  for (; score.cases < cases; ++score.cases) {
    World& world = worlds[score.cases % worlds.size()];
    score.tuning_s += tune_first(world, random.next());
    const auto remedy = [&](double* device_s) {
      World night = world;
      SimulatedSubject subject(night, {}, random.next());
      const ReworkResult result = rework(subject, settings(), {}, {});
      if (device_s != nullptr) *device_s += subject.device_s();
      return result.triage->remedy;
    };
    score.false_alarms += remedy(&score.probe_s) != Remedy::keep;
    Observation& winner = world.truth[*world.served];
    const double before = winner.time_us;
    winner.time_us *= 1 + slower;
    score.found += remedy(nullptr) != Remedy::keep;
    winner.time_us = before;
  }
  return score;
}

int run(std::size_t nights, std::size_t workloads, std::size_t cases, std::uint64_t seed) {
  const Nights steady = simulate_nights(nights, workloads, false, seed);
  const Nights changing = simulate_nights(nights, workloads, true, seed);
  const TriageScore score = score_triage(cases, 0.1, seed + 1);
  const double share = score.tuning_s > 0 ? score.probe_s / score.tuning_s : 0;
  const auto bar = [&](double of_hundred) { return of_hundred * static_cast<double>(cases) / 100; };
  const bool held = steady.behind == 0 && steady.rises == 0 && changing.rises == 0 &&
                    static_cast<double>(score.found) >= bar(95) &&
                    static_cast<double>(score.false_alarms) <= bar(5) && share <= 0.2;
  const nlohmann::ordered_json document = {{"steady", steady.document()},
                                           {"changing", changing.document()},
                                           {"triage",
                                            {{"cases", score.cases},
                                             {"losses_of_10_percent_found", score.found},
                                             {"false_alarms", score.false_alarms},
                                             {"quiet_night_share_of_tuning", share}}},
                                           {"all_bars_held", held}};
  std::printf("%s\n", document.dump(1).c_str());
  return held ? 0 : 1;
}

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  const auto number = [&](int at, unsigned long long fallback) {
    return argc > at ? std::strtoull(argv[at], nullptr, 10) : fallback;
  };
  if (argc > 5 || (argc > 1 && argv[1][0] == '-')) {
    std::fprintf(stderr, "usage: retune_nights [NIGHTS [WORKLOADS [TRIAGE_CASES [SEED]]]]\n");
    return 2;
  }
  return moetune::run(number(1, 30), number(2, 2), number(3, 20), number(4, 1));
}
