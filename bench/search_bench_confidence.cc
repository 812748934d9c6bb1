#include "bench/search_bench_confidence.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <thread>

#include "search/confidence.h"
#include "search/simulation.h"

namespace moetune::bench {
namespace {

constexpr std::array<std::size_t, 6> kCheckpoints = {20, 35, 50, 75, 100, 140};
constexpr std::size_t kBands = 5;

struct Sample {
  std::size_t space = 0;
  std::size_t trials = 0;
  Confidence stated;
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
    samples.push_back({index, trials, assess(space.space, std::span(told).first(trials), space.floor_us),
                       best <= 1.05 * space.optimum_us, 1 - run.best_us[trials + kMoreTrials - 1] / best});
  }
  return samples;
}

std::vector<Sample> assess_all(const Plan& plan, const std::vector<RecordedSpace>& spaces) {
  std::vector<std::vector<Sample>> by_run(spaces.size() * plan.seeds);
  std::atomic<std::size_t> next{0};
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < std::max<std::size_t>(plan.threads, 1); ++t) {
      threads.emplace_back([&] {
        for (std::size_t job = next++; job < by_run.size(); job = next++) {
          const std::size_t s = job / plan.seeds;
          by_run[job] = assess_run(spaces[s], s, plan.first_seed + job % plan.seeds);
        }
      });
    }
  }
  std::vector<Sample> all;
  for (const std::vector<Sample>& run : by_run) all.insert(all.end(), run.begin(), run.end());
  std::erase_if(all, [](const Sample& sample) { return !sample.stated.known; });
  return all;
}

void print_header(const std::string& what) {
  std::printf("%s\n%-10s %8s %8s %8s %12s %12s\n", what.c_str(), "stated", "runs", "mean", "within",
              "stated gain", "real gain");
}

void print_bands(const std::vector<Sample>& samples) {
  for (std::size_t band = 0; band < kBands; ++band) {
    const double low = static_cast<double>(band) / kBands;
    double count = 0, mean = 0, within = 0, stated_gain = 0, gain = 0;
    for (const Sample& sample : samples) {
      const double stated = sample.stated.within_5_percent;
      if (std::min(static_cast<std::size_t>(stated * kBands), kBands - 1) != band) continue;
      ++count;
      mean += stated;
      within += sample.within ? 1 : 0;
      stated_gain += sample.stated.expected_gain;
      gain += sample.gain;
    }
    if (count == 0) continue;
    std::printf("%3.0f-%3.0f%%   %8.0f %7.1f%% %7.1f%% %11.2f%% %11.2f%%\n", 100 * low,
                100 * (low + 1.0 / kBands), count, 100 * mean / count, 100 * within / count,
                100 * stated_gain / count, 100 * gain / count);
  }
}

}  // namespace

void print_confidence(const Plan& plan, const std::vector<RecordedSpace>& spaces, bool print_samples) {
  const std::vector<Sample> samples = assess_all(plan, spaces);
  if (print_samples) {
    for (const Sample& sample : samples)
      std::printf("%s %zu %.4f %d %.4f %.4f\n", spaces[sample.space].name.c_str(), sample.trials,
                  sample.stated.within_5_percent, sample.within ? 1 : 0, sample.stated.expected_gain,
                  sample.gain);
  }
  print_header("all spaces");
  print_bands(samples);
  for (std::size_t s = 0; s < spaces.size(); ++s) {
    std::vector<Sample> own = samples;
    std::erase_if(own, [&](const Sample& sample) { return sample.space != s; });
    print_header(spaces[s].name);
    print_bands(own);
  }
}

}  // namespace moetune::bench
