#include "bench/search_bench_confidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/search_bench_calibration.h"
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
constexpr std::array<Band, 6> kBands = {Band{0, 0.2}, {0.2, 0.4}, {0.4, 0.6},
                                        {0.6, 0.8},   {0.8, 1},   {0.7, 0.9}};

// Strategies that a calibration is fitted to, by weight: `auto` is what it is for, and the others hold it to
// what a search that looked less cleverly may state.
struct Teacher {
  const char* strategy;
  double weight;
};
constexpr std::array<Teacher, 3> kTeachers = {Teacher{"auto", 1}, {"local", 0.3}, {"random", 0.3}};

struct Sample {
  std::size_t space = 0;
  std::size_t trials = 0;
  Confidence confidence;
  double stated = 0;
  bool within = false;
  double gain = 0;
};

std::vector<Sample> assess_run(const std::string& strategy, const RecordedSpace& space, std::size_t index,
                               std::uint64_t seed) {
  const auto searcher = make_searcher(strategy, space.space, seed);
  const SimulatedRun run = simulate(*searcher, space.outcomes, kCheckpoints.back() + kMoreTrials);
  std::vector<Observation> told;
  for (const ConfigId id : run.asked) told.push_back(space.outcomes[id]);
  std::vector<Sample> samples;
  for (const std::size_t trials : kCheckpoints) {
    if (trials + kMoreTrials > told.size()) break;
    const double best = run.best_us[trials - 1];
    const Confidence confidence = assess(space.space, std::span(told).first(trials), space.floor_us);
    samples.push_back({index, trials, confidence, confidence.within_5_percent,
                       best <= 1.05 * space.optimum_us, 1 - run.best_us[trials + kMoreTrials - 1] / best});
  }
  return samples;
}

std::vector<Sample> assess_all(const std::string& strategy, const Plan& plan,
                               const std::vector<RecordedSpace>& spaces) {
  std::vector<std::vector<Sample>> by_run(spaces.size() * plan.seeds);
  run_jobs(by_run.size(), plan.threads, [&](std::size_t job) {
    const std::size_t s = job / plan.seeds;
    by_run[job] = assess_run(strategy, spaces[s], s, plan.first_seed + job % plan.seeds);
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
  std::printf("%s\n%-10s %8s %8s %8s %12s %12s\n", what.c_str(), "stated", "runs", "mean", "within",
              "stated gain", "real gain");
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
    std::printf("%3.0f-%3.0f%%   %8.0f %7.1f%% %7.1f%% %11.2f%% %11.2f%%\n", 100 * band.from, 100 * band.to,
                count, 100 * mean / count, 100 * within / count, 100 * stated_gain / count,
                100 * gain / count);
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

// Mean of minus the logarithm of the probability that was given to what came true.
double log_loss(const std::vector<Sample>& samples) {
  double sum = 0;
  for (const Sample& sample : samples)
    sum -= std::log(std::max(sample.within ? sample.stated : 1 - sample.stated, 1e-6));
  return sum / static_cast<double>(samples.size());
}

// The samples of all teachers' searches outside the space `left_out`. Within a teacher, each space weighs the same.
std::vector<LabeledSample> training_samples(const std::vector<std::vector<Sample>>& by_teacher,
                                            std::size_t left_out) {
  std::vector<LabeledSample> samples;
  for (std::size_t t = 0; t < by_teacher.size(); ++t) {
    std::vector<double> counts;
    for (const Sample& sample : by_teacher[t]) {
      counts.resize(std::max(counts.size(), sample.space + 1));
      ++counts[sample.space];
    }
    for (const Sample& sample : by_teacher[t]) {
      if (sample.space != left_out)
        samples.push_back(
            {sample.confidence.features, sample.within, kTeachers[t].weight / counts[sample.space]});
    }
  }
  return samples;
}

std::vector<Sample> judged_by_others(const std::vector<std::vector<Sample>>& by_teacher,
                                     std::size_t space_count, bool by_times) {
  std::vector<Sample> samples = by_teacher.front();
  for (std::size_t s = 0; s < space_count; ++s) {
    const Calibration others = fit_calibration(training_samples(by_teacher, s), by_times);
    for (Sample& sample : samples) {
      if (sample.space == s) sample.stated = others.probability(sample.confidence.features);
    }
  }
  return samples;
}

}  // namespace

nlohmann::json print_confidence(const Plan& plan, const std::vector<RecordedSpace>& spaces,
                                bool print_samples) {
  const std::vector<Sample> samples = assess_all("auto", plan, spaces);
  if (print_samples) {
    for (const Sample& sample : samples)
      std::printf("%s %zu %.4f %d %.4f %.4f\n", spaces[sample.space].name.c_str(), sample.trials,
                  sample.stated, sample.within ? 1 : 0, sample.confidence.expected_gain, sample.gain);
  }
  return print_all_bands(samples, spaces);
}

nlohmann::json print_refit(const Plan& plan, const std::vector<RecordedSpace>& spaces) {
  if (spaces.size() < 2) throw BadInput("--refit leaves one space out and needs two recordings or more");
  std::vector<std::vector<Sample>> by_teacher;
  for (const Teacher& teacher : kTeachers) {
    by_teacher.push_back(assess_all(teacher.strategy, plan, spaces));
    std::erase_if(by_teacher.back(), [](const Sample& sample) { return sample.confidence.at_floor; });
  }
  const Calibration all = fit_calibration(training_samples(by_teacher, spaces.size()));
  std::printf(
      "Fitted to all spaces: offset %.3f; slopes %.3f of the model's logit (held) and of the logarithms of "
      "trials %.3f, residual %.3f, spread %.3f\n",
      all.offset, all.slopes[0], all.slopes[1], all.slopes[2], all.slopes[3]);
  const std::vector<Sample> left_out = judged_by_others(by_teacher, spaces.size(), true);
  const double with = log_loss(left_out);
  const double without = log_loss(judged_by_others(by_teacher, spaces.size(), false));
  std::printf(
      "Left out, log loss %.4f; %.4f without residual and spread. Each space by a fit to the others:\n", with,
      without);
  nlohmann::json out = print_all_bands(left_out, spaces);
  out["fitted"] = {{"offset", all.offset}, {"slopes", all.slopes}};
  out["log_loss"] = with;
  out["log_loss_without_residual_and_spread"] = without;
  return out;
}

}  // namespace moetune::bench
