#include "tuner/worker/settling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace moetune {
namespace {

constexpr double kFull = 0.99;   // of the highest clock
constexpr double kNear = 0.015;  // of a contestant's usual clock: steps are 15 MHz, dips some hundred

}  // namespace

void Settling::add(std::vector<TimedSample> round, double busy_us) {
  rounds_.push_back({std::move(round), loaded_us_});
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

std::vector<std::size_t> Settling::counting() const {
  std::vector<std::size_t> warm(rounds_.size());
  std::iota(warm.begin(), warm.end(), std::size_t{0});
  if (is_unhindered()) return warm;
  std::erase_if(warm, [&](std::size_t i) { return rounds_[i].began_us < kWarmingUs; });
  if (warm.empty()) return warm;

  std::vector<double> usual;
  for (std::size_t contestant = 0; contestant < rounds_[warm[0]].samples.size(); ++contestant) {
    std::vector<double> clocks;
    for (const std::size_t i : warm) clocks.push_back(rounds_[i].samples[contestant].clock_mhz);
    const auto middle = clocks.begin() + static_cast<std::ptrdiff_t>(clocks.size() / 2);
    std::nth_element(clocks.begin(), middle, clocks.end());
    usual.push_back(*middle);
  }
  std::erase_if(warm, [&](std::size_t i) {
    const std::vector<TimedSample>& samples = rounds_[i].samples;
    for (std::size_t contestant = 0; contestant < samples.size(); ++contestant) {
      if (std::abs(samples[contestant].clock_mhz - usual[contestant]) > kNear * usual[contestant])
        return true;
    }
    return false;
  });
  return warm;
}

}  // namespace moetune
