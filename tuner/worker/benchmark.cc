#include "tuner/worker/benchmark.h"

#include <algorithm>
#include <cmath>

#include "base/statistics.h"

namespace moetune {
namespace {

constexpr double kSampleUs = 400;  // a graph's least duration
constexpr double kWholeTurns = 5;  // up to so many times that a graph holds whole turns of the rotation
constexpr int kMaxLaunches = 1024;
constexpr double kHopeless = 4;           // a first run this many times over the limit needs no graph
constexpr double kFirstRunSlackUs = 200;  // what a first run may lose to loading and to the host
constexpr std::uint64_t kPatienceNs = 50'000'000;  // enqueueing a few graphs takes some 50 us
constexpr int kHoldAttempts = 3;
constexpr int kBatch = 4;
constexpr int kProducerSamples = 5;          // a candidate, until so many are known as count
constexpr std::size_t kProducerMemory = 41;  // samples of the producer that count; clocks drift
constexpr double kLeastUs = 0.01;            // of a launch whose producer took as long as both

std::string microseconds(double us) { return std::to_string(std::llround(us)) + " us"; }

double seconds_left(Deadline deadline) {
  return std::chrono::duration<double>(deadline - std::chrono::steady_clock::now()).count();
}

// Holds the stream until it is released, at the latest when this dies.
class HeldStream {
 public:
  HeldStream(Harness& harness, bool holds) : harness_(harness) {
    if (holds) harness_.hold(kPatienceNs);
  }
  ~HeldStream() { release(); }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  void release() { harness_.release(); }

 private:
  Harness& harness_;
};

}  // namespace

int launches_per_sample(double time_us, std::int64_t turns, double sample_us) {
  const double needed = std::ceil(sample_us / std::max(time_us, 0.1));
  const int wanted = static_cast<int>(std::clamp<double>(needed, 1, kMaxLaunches));
  const auto turn_count = static_cast<int>(turns);
  const int whole = (wanted + turn_count - 1) / turn_count * turn_count;
  return whole * time_us <= kWholeTurns * sample_us ? whole : wanted;
}

Rotation::Rotation(Enqueue enqueue, std::int64_t turns, const cuda::Stream& stream)
    : enqueue_(std::move(enqueue)), turns_(turns), stream_(stream) {}

const cuda::Graph& Rotation::graph(std::int64_t start) {
  const auto known = graphs_.find(start);
  if (known != graphs_.end()) return known->second;
  return graphs_
      .emplace(start, cuda::capture(stream_,
                                    [&] {
                                      for (int i = 0; i < launches_; ++i) enqueue_((start + i) % turns_);
                                    }))
      .first->second;
}

void Rotation::prepare(int count) {
  for (int i = 0; i < count; ++i) graph((start_ + std::int64_t{i} * launches_) % turns_);
}

void Rotation::enqueue_next() {
  cuda::launch(graph(start_), stream_);
  start_ = (start_ + launches_) % turns_;
}

double Rotation::fit_graph_length(double rough_us, double sample_us) {
  constexpr int kRefinements = 3;
  const cuda::Event begin = cuda::make_event(), end = cuda::make_event();
  for (int i = 0; i < kRefinements; ++i) {
    const int wanted = launches_per_sample(rough_us, turns_, sample_us);
    // A single first run overestimates short kernels several times; a graph of them does not.
    if (i > 0 && wanted <= launches_ + launches_ / 4) break;
    launches_ = wanted;
    graphs_.clear();
    prepare(1);
    cuda::record(begin, stream_);
    enqueue_next();
    cuda::record(end, stream_);
    cuda::synchronize(stream_);
    rough_us = cuda::elapsed_us(begin, end) / launches_;
  }
  return rough_us;
}

Benchmark::Benchmark(Harness& harness, Producer& producer, const Nvml& nvml, const cuda::Stream& stream)
    : harness_(harness), producer_(producer), nvml_(nvml), stream_(stream) {}

Rotation::Enqueue Benchmark::enqueue_of(LoadedPlan& plan, Timing timing) const {
  switch (timing) {
    case Timing::chained:
      return [this, &plan](std::int64_t turn) {
        producer_.enqueue(turn);
        plan.enqueue(turn);
      };
    case Timing::alone:
      return [&plan](std::int64_t turn) { plan.enqueue_alone(turn); };
    case Timing::overlapped:
      break;
  }
  return [&plan](std::int64_t turn) { plan.enqueue(turn); };
}

double Benchmark::producer_us(std::int64_t turns, double sample_us, int count) {
  if (!producing_) {
    producing_.emplace([this](std::int64_t turn) { producer_.enqueue(turn); }, turns, stream_);
    producing_->fit_graph_length(kSampleUs, sample_us);
  }
  sample(*producing_, count, producer_samples_us_);
  if (producer_samples_us_.size() > kProducerMemory) {
    const auto old = static_cast<std::ptrdiff_t>(producer_samples_us_.size() - kProducerMemory);
    producer_samples_us_.erase(producer_samples_us_.begin(), producer_samples_us_.begin() + old);
  }
  return median_interval(producer_samples_us_).median;
}

namespace {

void take_off(std::vector<double>& samples_us, double producer_us) {
  for (double& sample : samples_us) sample = std::max(kLeastUs, sample - producer_us);
}

}  // namespace

std::vector<double> Benchmark::timed_graphs(Rotation& rotation, int count) {
  rotation.prepare(count);
  std::vector<cuda::Event> marks;
  for (int i = 0; i <= count; ++i) marks.push_back(cuda::make_event());
  HeldStream held(harness_, holds_);
  cuda::record(marks[0], stream_);
  for (int i = 1; i <= count; ++i) {
    rotation.enqueue_next();
    cuda::record(marks[static_cast<std::size_t>(i)], stream_);
  }
  held.release();
  cuda::synchronize(stream_);
  std::vector<double> samples_us;
  for (std::size_t i = 1; i < marks.size(); ++i)
    samples_us.push_back(cuda::elapsed_us(marks[i - 1], marks[i]) / rotation.launches());
  return samples_us;
}

void Benchmark::sample(Rotation& rotation, int count, std::vector<double>& samples_us) {
  std::vector<double> fresh = timed_graphs(rotation, count);
  for (int attempt = 1; holds_ && harness_.gave_up(); ++attempt) {
    // A profiler, or CUDA_LAUNCH_BLOCKING, ends each launch before the next is enqueued: no launch can wait
    // for what comes behind it.
    if (attempt == kHoldAttempts) holds_ = false;
    fresh = timed_graphs(rotation, count);
  }
  samples_us.insert(samples_us.end(), fresh.begin(), fresh.end());
}

Measurement Benchmark::summarize(std::vector<double> samples_us) const {
  Measurement measurement;
  const MedianInterval interval = median_interval(samples_us);
  measurement.median_us = interval.median;
  measurement.low_us = interval.low;
  measurement.high_us = interval.high;
  measurement.samples_us = std::move(samples_us);
  const Nvml::Reading reading = nvml_.read();
  measurement.sm_clock_mhz = reading.sm_clock_mhz;
  measurement.memory_clock_mhz = reading.memory_clock_mhz;
  measurement.temperature_c = reading.temperature_c;
  measurement.throttled = reading.throttled;
  return measurement;
}

Benchmark::Timed Benchmark::measure(LoadedPlan& plan, std::int64_t turns, double rough_us,
                                    const MeasurePolicy& policy, Deadline deadline) {
  const auto too_slow = [&](double seen_us, std::vector<double> samples) {
    return Timed{
        Outcome::too_slow,
        microseconds(seen_us) + " at first look; dropped above " + microseconds(policy.drop_above_us),
        summarize(std::move(samples))};
  };
  if (rough_us > kHopeless * policy.drop_above_us + kFirstRunSlackUs) return too_slow(rough_us, {rough_us});

  const auto fits = [&](int samples, double launch_us, int launches) {
    return seconds_left(deadline) > 1.5e-6 * samples * launches * launch_us;
  };
  if (!fits(policy.quick_samples + 1, rough_us, launches_per_sample(rough_us, turns, kSampleUs))) {
    return {Outcome::timed_out,
            "one run takes " + microseconds(rough_us) + ": too long to measure within its time limit",
            {}};
  }
  Rotation rotation(enqueue_of(plan, policy.timing), turns, stream_);
  const bool chained = policy.timing == Timing::chained;
  const bool is_known = producer_samples_us_.size() == kProducerMemory;
  const double producer = chained ? producer_us(turns, kSampleUs, is_known ? 1 : kProducerSamples) : 0;
  const double launch_us = rotation.fit_graph_length(rough_us, kSampleUs);

  std::vector<double> samples;
  const auto take = [&](int count) {
    std::vector<double> fresh;
    sample(rotation, count, fresh);
    take_off(fresh, producer);
    samples.insert(samples.end(), fresh.begin(), fresh.end());
  };
  take(std::max(1, policy.quick_samples));
  const double quick_us = *std::min_element(samples.begin(), samples.end());
  if (quick_us > policy.drop_above_us) return too_slow(quick_us, std::move(samples));

  const auto size = [&] { return static_cast<int>(samples.size()); };
  while (size() < policy.max_samples) {
    const MedianInterval now = median_interval(samples);
    if (size() >= policy.min_samples && now.high - now.low <= policy.relative_width * now.median) break;
    const int next = std::min(size() < policy.min_samples ? policy.min_samples - size() : kBatch,
                              policy.max_samples - size());
    if (!fits(next, launch_us, rotation.launches())) break;
    take(next);
  }
  return {Outcome::ok, "", summarize(std::move(samples))};
}

std::vector<Measurement> Benchmark::duel(const std::vector<LoadedPlan*>& plans, std::int64_t turns,
                                         const DuelPolicy& policy, Deadline deadline,
                                         std::optional<std::size_t>& failed) {
  std::vector<Rotation> rotations;
  std::vector<std::vector<double>> samples(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    failed = i;
    Rotation& rotation = rotations.emplace_back(enqueue_of(*plans[i], policy.timing), turns, stream_);
    rotation.fit_graph_length(policy.sample_us, policy.sample_us);
    rotation.restart();  // so that plans which take equally long meet the same turns
  }
  double producer = 0;
  for (int round = 0; round < policy.rounds && (round == 0 || seconds_left(deadline) > 0); ++round) {
    failed.reset();
    if (policy.timing == Timing::chained) producer = producer_us(turns, policy.sample_us, 1);
    for (std::size_t place = 0; place < plans.size(); ++place) {
      const std::size_t i = (static_cast<std::size_t>(round) + place) % plans.size();
      failed = i;
      sample(rotations[i], 1, samples[i]);
    }
  }
  failed.reset();
  std::vector<Measurement> measurements;
  for (std::vector<double>& of_one : samples) {
    take_off(of_one, producer);
    measurements.push_back(summarize(std::move(of_one)));
  }
  return measurements;
}

}  // namespace moetune
