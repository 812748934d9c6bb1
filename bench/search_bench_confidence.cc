#include "bench/search_bench_confidence.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/search_bench_jobs.h"
#include "search/confidence.h"
#include "tests/search/simulation.h"

namespace moetune::bench {
namespace {

constexpr std::array<std::size_t, 6> kCheckpoints = {20, 35, 50, 75, 100, 140};

struct Band {
  double from, to;
};
// The last is the one that "about 80%" means, across two others.
constexpr std::array<Band, 6> kBands = {Band{0, 0.2}, {0.2, 0.4}, {0.4, 0.6}, {0.6, 0.8}, {0.8, 1}, {0.7, 0.9}};

struct Sample {
  std::size_t space = 0;
  std::size_t trials = 0;
  Confidence confidence;
  double stated = 0;
  bool within = false;
  double gain = 0;
};

std::vector<Sample> assess_run(const RecordedSpace& space, std::size_t index, std::uint64_t seed) {
  const auto searcher = make_searcher("auto", space.space, seed);
  const SimulatedRun run = simulate(*searcher, space.outcomes, kCheckpoints.back() + kMoreTrials);
  std::vector<Observation> told;
  for (const ConfigId id : run.asked) told.push_back(space.outcomes[id]);
  std::vector<Sample> samples;
  for (const std::size_t trials : kCheckpoints) {
    if (trials + kMoreTrials > told.size()) break;
    const double best = run.best_us[trials - 1];
    const Confidence confidence = assess(space.space, std::span(told).first(trials), space.floor_us);
    samples.push_back({index, trials, confidence, confidence.within_5_percent, best <= 1.05 * space.optimum_us,
                       1 - run.best_us[trials + kMoreTrials - 1] / best});
  }
  return samples;
}

std::vector<Sample> assess_all(const Plan& plan, const std::vector<RecordedSpace>& spaces) {
  std::vector<std::vector<Sample>> by_run(spaces.size() * plan.seeds);
  run_jobs(by_run.size(), plan.threads, [&](std::size_t job) {
    const std::size_t s = job / plan.seeds;
    by_run[job] = assess_run(spaces[s], s, plan.first_seed + job % plan.seeds);
  });
  std::vector<Sample> all;
  for (const std::vector<Sample>& run : by_run) all.insert(all.end(), run.begin(), run.end());
  std::erase_if(all, [](const Sample& sample) { return !sample.confidence.known; });
  return all;
}

std::vector<Sample> of_space(std::vector<Sample> samples, std::size_t space) {
  std::erase_if(samples, [&](const Sample& sample) { return sample.space != space; });
  return samples;
}

nlohmann::json print_bands(const std::string& what, const std::vector<Sample>& samples) {
  std::printf("%s\n%-10s %8s %8s %8s %12s %12s\n", what.c_str(), "stated", "runs", "mean", "within", "stated gain",
              "real gain");
  nlohmann::json rows = nlohmann::json::array();
  for (const Band& band : kBands) {
    double count = 0, mean = 0, within = 0, stated_gain = 0, gain = 0;
    for (const Sample& sample : samples) {
      if (sample.stated < band.from || (sample.stated >= band.to && band.to < 1)) continue;
      ++count;
      mean += sample.stated;
      within += sample.within ? 1 : 0;
      stated_gain += sample.confidence.expected_gain;
      gain += sample.gain;
    }
    if (count == 0) continue;
    std::printf("%3.0f-%3.0f%%   %8.0f %7.1f%% %7.1f%% %11.2f%% %11.2f%%\n", 100 * band.from, 100 * band.to, count,
                100 * mean / count, 100 * within / count, 100 * stated_gain / count, 100 * gain / count);
    rows.push_back({{"from", band.from},
                    {"to", band.to},
                    {"assessments", count},
                    {"stated", mean / count},
                    {"within_5_percent", within / count},
                    {"stated_gain", stated_gain / count},
                    {"gain", gain / count}});
  }
  return rows;
}

// For all spaces together, then for each that has any sample.
nlohmann::json print_all_bands(const std::vector<Sample>& samples, const std::vector<RecordedSpace>& spaces) {
  nlohmann::json out = {{"all", print_bands("all spaces", samples)}, {"spaces", nlohmann::json::object()}};
  for (std::size_t s = 0; s < spaces.size(); ++s) {
    const std::vector<Sample> own = of_space(samples, s);
    if (!own.empty()) out["spaces"][spaces[s].name] = print_bands(spaces[s].name, own);
  }
  return out;
}

}  // namespace

nlohmann::json print_confidence(const Plan& plan, const std::vector<RecordedSpace>& spaces, bool print_samples) {
  const std::vector<Sample> samples = assess_all(plan, spaces);
  if (print_samples) {
    for (const Sample& sample : samples)
      std::printf("%s %zu %.4f %d %.4f %.4f\n", spaces[sample.space].name.c_str(), sample.trials, sample.stated,
                  sample.within ? 1 : 0, sample.confidence.expected_gain, sample.gain);
  }
  return print_all_bands(samples, spaces);
}

}  // namespace moetune::bench
