// Decides which rounds of a duel count: those that ran at the clocks which a GPU keeps up.
//
// The first sustained load of the tensor cores makes the power controller lower the clocks after 40 to 80 ms, and
// about 840 ms into the load they dip once more for 150 ms (measured on an H200: 1740 MHz, then 1550, with a dip to
// 1300). A server runs in the state between. So the rounds of the first kWarmingUs count only if nothing held the
// clocks down, or if the times did not depend on it, as those of memory-bound kernels; and of the others those in
// which each configuration ran near its own usual clock. The controller keeps swinging by 1%: where it matters a duel
// counts kSwingUs of load at least. And it starts from rest: right behind another load of a second the clocks settle
// 2.5% lower, after a pause of 100 ms where they settle after one of three seconds.
//
// Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <vector>

namespace moetune {

// One timed graph: the time of a launch, and the clock meanwhile (0: unknown).
struct TimedSample {
  double us = 0;
  double clock_mhz = 0;
};

class Settling {
 public:
  static constexpr double kWarmingUs = 150'000, kSwingUs = 300'000;

  // `loaded_us` is for how long the GPU has already been busy without a pause.
  Settling(double highest_mhz, double loaded_us) : highest_mhz_(highest_mhz), loaded_us_(loaded_us) {}

  // A round, a sample of each configuration in order, and how long it kept the GPU busy.
  void add(std::vector<TimedSample> round, double busy_us);

  // The positions of the rounds that count, and whether these are enough where `wanted` are asked for.
  std::vector<std::size_t> counting() const;
  bool is_enough(std::size_t wanted) const;
  // Clocks were held down, and times depend on them.
  bool follows_clock() const { return !is_unhindered() && !is_indifferent(); }
  const std::vector<TimedSample>& round(std::size_t position) const { return rounds_[position].samples; }
  std::size_t size() const { return rounds_.size(); }

 private:
  struct Round {
    std::vector<TimedSample> samples;
    double began_us = 0, busy_us = 0;  // of the load
  };
  bool is_unhindered() const;
  bool is_indifferent() const;

  double highest_mhz_, loaded_us_;
  std::vector<Round> rounds_;
};

}  // namespace moetune
