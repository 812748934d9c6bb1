// A GPU made up from recorded times: with noise, drift over its own virtual time, and bursts of somebody else's work
// that its canary mostly notices. For simulations of what happens on real machines, many nights long.
//
// Deterministic in its seed. Nothing is compiled; candidates are known by their configurations. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/random.h"
#include "search/searcher.h"
#include "tuner/device.h"

namespace moetune {

struct NoiseModel {
  double sample_sigma = 0.012;  // of one sample, relative
  double launch_sigma = 0.006;  // of all samples of one measurement together: placement, clocks
  double drift = 0.02;          // amplitude of a slow wave over all times
  double burst_chance = 0;      // of a foreign burst to begin, for each measurement
  double burst_length = 30;     // measurements, in the mean
  double burst_factor = 1.8;    // times beside it
  double canary_misses = 0.1;   // of canaries that a burst does not disturb
};

class NoisyDevice : public Device {
 public:
  // `truth` by ConfigId of `space`, which both outlive it.
  NoisyDevice(const LegalSpace& space, const std::vector<Observation>& truth, const NoiseModel& noise,
              std::uint64_t seed);

  const DeviceInfo& info() const override { return info_; }
  void open(const Kernel&, const Problem&, std::uint64_t) override {}
  TrialResult run(const Candidate& candidate, const MeasurePolicy& policy) override;
  std::vector<TrialResult> duel(const std::vector<Candidate>& finalists, const DuelPolicy& policy) override;
  TrialResult verify(const Candidate& candidate, std::uint64_t seed, double time_limit_s) override;
  std::optional<CanaryReading> canary() override;

  double measured_s() const { return measured_s_; }  // virtual seconds of the device

 private:
  const Observation* find(const Config& config) const;
  double sample(double time_us, double common);
  double normal();
  void step();  // one measurement later

  const LegalSpace& space_;
  const std::vector<Observation>& truth_;
  NoiseModel noise_;
  Random random_;
  DeviceInfo info_;
  double phase_;
  std::uint64_t steps_ = 0;
  std::uint64_t busy_for_ = 0;  // measurements
  double measured_s_ = 0;
};

}  // namespace moetune
