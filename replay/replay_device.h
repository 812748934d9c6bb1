// A Device whose measurements were recorded: the same configuration always gets the same outcome and time, at
// once. Nothing is compiled, launched or validated here; a candidate's plan and build are ignored and may be
// null.
//
// Shares the recording. Not thread-safe, as every Device.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "replay/recording.h"
#include "tuner/device.h"

namespace moetune {

class ReplayDevice : public Device {
 public:
  // `id` is what the user calls it: "replay:FILE". Results carry the recorded GPU's key with the origin
  // "replay:DIGEST", so that they are never taken for measured ones.
  // `pace`: what a trial takes, for simulations; a duel as long for each finalist.
  // `recordings`: at least one, of one kernel and GPU, each of another problem. open() chooses; before it the first
  // serves.
  ReplayDevice(std::vector<std::shared_ptr<const Recording>> recordings, std::string id,
               std::chrono::milliseconds pace = std::chrono::milliseconds(0));

  const DeviceInfo& info() const override { return info_; }

  // Throws BadInput where the recording is of another kernel or problem, naming what it is of. A recording of
  // a kernel that is not moetune's is run without being opened.
  void open(const Kernel& kernel, const Problem& problem, std::uint64_t seed) override;

  // The recorded outcome. One above policy.drop_above_us comes back as too_slow, as a GPU would report it,
  // though with its exact time; one that was never recorded comes back as pruned.
  TrialResult run(const Candidate& candidate, const MeasurePolicy& policy) override;
  std::vector<TrialResult> duel(const std::vector<Candidate>& finalists, const DuelPolicy& policy) override;
  TrialResult verify(const Candidate& candidate, std::uint64_t seed, double time_limit_s) override;

 private:
  TrialResult recorded(const Config& config) const;

  std::vector<std::shared_ptr<const Recording>> recordings_;
  std::shared_ptr<const Recording> recording_;  // of the open problem
  DeviceInfo info_;
  std::chrono::milliseconds pace_;
};

}  // namespace moetune
