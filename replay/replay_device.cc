#include "replay/replay_device.h"

#include <algorithm>
#include <thread>

#include "base/digest.h"
#include "base/error.h"
#include "base/lists.h"
#include "base/statistics.h"

namespace moetune {
namespace {

Measurement measurement_of(const RecordedTrial& trial) {
  Measurement measurement;
  measurement.median_us = trial.time_us;
  measurement.low_us = measurement.high_us = trial.time_us;
  measurement.samples_us.assign(trial.samples_us.begin(), trial.samples_us.end());
  if (!measurement.samples_us.empty()) {
    const MedianInterval interval = median_interval(measurement.samples_us);
    // A recording may hold the mean, or only some of its samples: the interval contains the recorded time all
    // the same.
    measurement.low_us = std::min(interval.low, measurement.median_us);
    measurement.high_us = std::max(interval.high, measurement.median_us);
  }
  return measurement;
}

// The origin of results: one recording, or all of them together in any order.
std::string origin_of(const std::vector<std::shared_ptr<const Recording>>& recordings) {
  if (recordings.size() == 1) return "replay:" + recordings.front()->digest;
  std::vector<std::string> digests = gathered(recordings, [](const auto& recording) { return recording->digest; });
  std::sort(digests.begin(), digests.end());
  DigestBuilder builder;
  for (const std::string& one : digests) builder.add(one);
  return "replay:" + builder.finish();
}

}  // namespace

ReplayDevice::ReplayDevice(std::vector<std::shared_ptr<const Recording>> recordings, std::string id,
                           std::chrono::milliseconds pace)
    : recordings_(std::move(recordings)), recording_(recordings_.at(0)), pace_(pace) {
  info_.key = recording_->hardware;
  info_.key.origin = origin_of(recordings_);
  info_.limits = recording_->limits;
  const int capability = recording_->hardware.compute_capability;
  if (capability > 0) info_.architecture = architecture_name(capability);
  info_.id = std::move(id);
  info_.recorded = true;
}

void ReplayDevice::open(const Kernel& kernel, const Problem& problem, std::uint64_t) {
  if (kernel.name() != recording_->kernel) {
    throw BadInput(info_.id + " is a recording of " + recording_->kernel + ", not of " + kernel.name());
  }
  // Read in today's schema: the recorded text may predate a dimension.
  const auto held = [&](const Recording& one) { return kernel.parse(one.problem); };
  for (const auto& recording : recordings_) {
    if (held(*recording) != problem) continue;
    recording_ = recording;
    return;
  }
  const std::string others = recordings_.size() == 1 ? "" : " and " + std::to_string(recordings_.size() - 1) + " more";
  throw BadInput(info_.id + " records " + held(*recordings_.front()).text() + others + ", not " + problem.text());
}

TrialResult ReplayDevice::recorded(const Config& config) const {
  const std::optional<ConfigId> id = recording_->space.find(config);
  if (pace_.count() > 0) std::this_thread::sleep_for(pace_);
  if (!id) {
    return {.outcome = Outcome::pruned, .message = "the recording has no such configuration: " + config.text()};
  }
  const RecordedTrial& trial = recording_->trials[*id];
  TrialResult result{.outcome = trial.outcome, .message = trial.message};
  if (has_time(trial.outcome)) result.measurement = measurement_of(trial);
  return result;
}

TrialResult ReplayDevice::run(const Candidate& candidate, const MeasurePolicy& policy) {
  TrialResult result = recorded(candidate.config);
  if (result.outcome == Outcome::ok && result.measurement.median_us > policy.drop_above_us) {
    result.outcome = Outcome::too_slow;
  }
  return result;
}

std::vector<TrialResult> ReplayDevice::duel(const std::vector<Candidate>& finalists, const DuelPolicy&) {
  return gathered(finalists, [this](const Candidate& finalist) { return recorded(finalist.config); });
}

TrialResult ReplayDevice::verify(const Candidate& candidate, std::uint64_t, double) {
  return recorded(candidate.config);
}

}  // namespace moetune
