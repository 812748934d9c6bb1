#include "tests/replay/noisy_device.h"

#include <algorithm>
#include <cmath>

#include "base/statistics.h"

namespace moetune {
namespace {

constexpr double kTwoPi = 6.283185307179586;
constexpr double kDriftPeriod = 400;                             // measurements
constexpr double kTrialSample_s = 0.4e-3, kDuelSample_s = 3e-3;  // tuner/worker/benchmark
constexpr double kValidate_s = 20e-3;

Measurement measurement_of(std::vector<double> samples) {
  Measurement measurement;
  const MedianInterval interval = median_interval(samples);
  measurement.median_us = interval.median;
  measurement.low_us = interval.low;
  measurement.high_us = interval.high;
  measurement.samples_us = std::move(samples);
  return measurement;
}

}  // namespace

NoisyDevice::NoisyDevice(const LegalSpace& space, const std::vector<Observation>& truth, const NoiseModel& noise,
                         std::uint64_t seed)
    : space_(space), truth_(truth), noise_(noise), random_(seed), phase_(kTwoPi * random_.unit()) {
  info_.id = "simulated";
  info_.key.name = "simulated";
}

const Observation* NoisyDevice::find(const Config& config) const {
  const std::optional<ConfigId> id = space_.find_text(config.text());
  return id ? &truth_[*id] : nullptr;
}

double NoisyDevice::normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random_.unit();
  return sum;
}

void NoisyDevice::step() {
  ++steps_;
  if (busy_for_ > 0) {
    --busy_for_;
  } else if (random_.unit() < noise_.burst_chance) {
    busy_for_ = 1 + static_cast<std::uint64_t>(2 * noise_.burst_length * random_.unit());
  }
}

double NoisyDevice::sample(double time_us, double common) {
  const double wave = noise_.drift * std::sin(phase_ + kTwoPi * static_cast<double>(steps_) / kDriftPeriod);
  const double busy = busy_for_ > 0 ? 1 + (noise_.burst_factor - 1) * (0.5 + random_.unit()) : 1;
  return time_us * busy * std::exp(wave + common + noise_.sample_sigma * normal());
}

TrialResult NoisyDevice::run(const Candidate& candidate, const MeasurePolicy& policy) {
  step();
  const Observation* const truth = find(candidate.config);
  if (truth == nullptr) return {.outcome = Outcome::pruned, .message = "the recording has no such configuration"};
  if (truth->outcome != Outcome::ok) return {.outcome = truth->outcome};
  const double common = noise_.launch_sigma * normal();
  std::vector<double> samples;
  for (int i = 0; i < policy.min_samples; ++i) samples.push_back(sample(truth->time_us, common));
  TrialResult result{.measurement = measurement_of(std::move(samples))};
  result.measure_s = kTrialSample_s * policy.min_samples;
  measured_s_ += result.measure_s + kValidate_s;
  if (result.measurement.median_us > policy.drop_above_us) result.outcome = Outcome::too_slow;
  return result;
}

std::vector<TrialResult> NoisyDevice::duel(const std::vector<Candidate>& finalists, const DuelPolicy& policy) {
  step();
  std::vector<std::vector<double>> samples(finalists.size());
  std::vector<double> common;
  for (std::size_t i = 0; i < finalists.size(); ++i) common.push_back(noise_.launch_sigma / 2 * normal());
  for (int round = 0; round < policy.rounds; ++round) {
    if (round % 8 == 7) step();
    for (std::size_t i = 0; i < finalists.size(); ++i) {
      const Observation* const truth = find(finalists[i].config);
      if (truth != nullptr && truth->outcome == Outcome::ok) samples[i].push_back(sample(truth->time_us, common[i]));
    }
  }
  std::vector<TrialResult> results(finalists.size());
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    measured_s_ += kDuelSample_s * static_cast<double>(samples[i].size());
    if (samples[i].empty()) {
      results[i].outcome = Outcome::launch_failed;
    } else {
      results[i].measurement = measurement_of(std::move(samples[i]));
    }
  }
  return results;
}

TrialResult NoisyDevice::verify(const Candidate& candidate, std::uint64_t, double) {
  measured_s_ += kValidate_s;
  const Observation* const truth = find(candidate.config);
  return {.outcome = truth != nullptr ? truth->outcome : Outcome::pruned};
}

std::optional<CanaryReading> NoisyDevice::canary() {
  measured_s_ += 5e-3;
  CanaryReading reading{.elapsed_us = 5000};
  if (busy_for_ > 0 && random_.unit() >= noise_.canary_misses) reading.lost_us = 2500;
  return reading;
}

}  // namespace moetune
