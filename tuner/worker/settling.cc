#include "tuner/worker/settling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace moetune {
namespace {

constexpr double kFull = 0.99;   // of the highest clock
constexpr double kNear = 0.015;  // of a configuration's usual clock: steps are 15 MHz, dips some hundred
constexpr double kSame = 0.01, kOutliers = 0.05;  // times, except for the outer ones
constexpr std::ptrdiff_t kRoundsToCompare = 3;

double quantile(std::vector<double> values, double share) {
  const auto last = static_cast<double>(values.size() - 1);
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(std::lround(share * last));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace

void Settling::add(std::vector<TimedSample> round, double busy_us) {
  // Some GPUs run above what they report.
  for (const TimedSample& sample : round) highest_mhz_ = std::max(highest_mhz_, sample.clock_mhz);
  rounds_.push_back({std::move(round), loaded_us_, busy_us});
  loaded_us_ += busy_us;
}

// Nothing is known of the clocks, or nothing has lowered them.
bool Settling::is_unhindered() const {
  return std::ranges::all_of(rounds_, [&](const Round& round) {
    return std::ranges::all_of(round.samples, [&](const TimedSample& sample) {
      return sample.clock_mhz == 0 || sample.clock_mhz >= kFull * highest_mhz_;
    });
  });
}

// Times are the same at the first clocks and at those behind them.
bool Settling::is_indifferent() const {
  const auto is_warm = [](const Round& round) { return round.began_us >= kWarmingUs; };
  const auto first_warm = std::find_if(rounds_.begin(), rounds_.end(), is_warm);
  if (first_warm == rounds_.begin() || rounds_.end() - first_warm < kRoundsToCompare) return false;
  for (std::size_t config = 0; config < rounds_[0].samples.size(); ++config) {
    std::vector<double> times;
    for (const Round& round : rounds_) times.push_back(round.samples[config].us);
    if (quantile(times, 1 - kOutliers) > (1 + kSame) * quantile(times, kOutliers)) return false;
  }
  return true;
}

bool Settling::is_enough(std::size_t wanted) const {
  const std::vector<std::size_t> rounds = counting();
  if (rounds.size() < wanted) return false;
  if (!follows_clock()) return true;
  double busy_us = 0;
  for (const std::size_t i : rounds) busy_us += rounds_[i].busy_us;
  return busy_us >= kSwingUs;
}

std::vector<std::size_t> Settling::counting() const {
  std::vector<std::size_t> warm(rounds_.size());
  std::iota(warm.begin(), warm.end(), std::size_t{0});
  if (!follows_clock()) return warm;
  std::erase_if(warm, [&](std::size_t i) { return rounds_[i].began_us < kWarmingUs; });
  if (warm.empty()) return warm;

  std::vector<double> usual;
  for (std::size_t config = 0; config < rounds_[warm[0]].samples.size(); ++config) {
    std::vector<double> clocks;
    for (const std::size_t i : warm) clocks.push_back(rounds_[i].samples[config].clock_mhz);
    usual.push_back(quantile(std::move(clocks), 0.5));
  }
  std::erase_if(warm, [&](std::size_t i) {
    const std::vector<TimedSample>& samples = rounds_[i].samples;
    for (std::size_t config = 0; config < samples.size(); ++config) {
      if (std::abs(samples[config].clock_mhz - usual[config]) > kNear * usual[config]) return true;
    }
    return false;
  });
  return warm;
}

}  // namespace moetune
