// A Device whose measurements were recorded: the same configuration always gets the same outcome and time, at
// once. Nothing is compiled, launched or validated here; a candidate's plan and build are ignored and may be
// null.
//
// Shares the recording. Not thread-safe, as every Device.
#pragma once

#include <memory>
#include <string>

#include "replay/recording.h"
#include "tuner/device.h"

namespace moetune {

class ReplayDevice : public Device {
 public:
  // `id` is what the user calls it: "replay:FILE". Results carry the recorded GPU's key with the origin
  // "replay:DIGEST", so that they are never taken for measured ones.
  ReplayDevice(std::shared_ptr<const Recording> recording, std::string id);

  const DeviceInfo& info() const override { return info_; }

  // Throws BadInput where the recording is of another kernel or problem, naming what it is of. A recording of
  // a kernel that is not moetune's is run without being opened.
  void open(const Kernel& kernel, const Problem& problem, std::uint64_t seed) override;

  // The recorded outcome. One above policy.drop_above_us comes back as too_slow, as a GPU would report it,
  // though with its exact time; one that was never recorded comes back as pruned.
  TrialResult run(const Candidate& candidate, const MeasurePolicy& policy) override;
  std::vector<TrialResult> duel(const std::vector<Candidate>& finalists, int rounds) override;
  TrialResult verify(const Candidate& candidate, std::uint64_t seed, double time_limit_s) override;

 private:
  TrialResult recorded(const Config& config) const;

  std::shared_ptr<const Recording> recording_;
  DeviceInfo info_;
};

}  // namespace moetune
