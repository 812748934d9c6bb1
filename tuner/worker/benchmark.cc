#include "tuner/worker/benchmark.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "base/lists.h"
#include "base/statistics.h"

namespace moetune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSampleUs = 400;  // a graph's least duration
constexpr double kWholeTurns = 5;  // up to so many times that a graph holds whole turns of the rotation
constexpr int kMaxLaunches = 1024;
constexpr double kHopeless = 4;                    // a first run this many times over the limit needs no graph
constexpr double kFirstRunSlackUs = 200;           // what a first run may lose to loading and to the host
constexpr std::uint64_t kPatienceNs = 50'000'000;  // enqueueing a few graphs takes some 50 us
constexpr int kHoldAttempts = 3;
constexpr int kBatch = 4;
constexpr double kDuelBatchUs = 100'000;                // of rounds that are enqueued at once
constexpr std::size_t kMostAtOnce = 64;                 // samples: each is some six entries of a queue that holds 1024
constexpr std::chrono::milliseconds kLongestPause{10};  // that ends a load
constexpr std::chrono::milliseconds kRest{100};         // in which a power controller forgets a load
constexpr int kProducerSamples = 5;                     // a candidate, until so many are known as count
constexpr std::size_t kProducerMemory = 41;             // samples of the producer that count; clocks drift
constexpr double kLeastUs = 0.01;                       // of a launch whose producer took as long as both

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

Rotation::Rotation(Enqueue enqueue, Forget forget, std::int64_t turns, const cuda::Stream& stream)
    : enqueue_(std::move(enqueue)), forget_(std::move(forget)), turns_(turns), stream_(stream) {
  restart();
}

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
  graph(ending_start());
}

void Rotation::enqueue_next() {
  cuda::launch(graph(start_), stream_);
  start_ = (start_ + launches_) % turns_;
}

void Rotation::set_launches(int launches) {
  launches_ = launches;
  graphs_.clear();
}

double Rotation::fit_graph_length(double rough_us, double sample_us) {
  constexpr int kRefinements = 3;
  const cuda::Event begin = cuda::make_event(), end = cuda::make_event();
  for (int i = 0; i < kRefinements; ++i) {
    const int wanted = launches_per_sample(rough_us, turns_, sample_us);
    // A single first run overestimates short kernels several times; a graph of them does not.
    if (i > 0 && wanted <= launches_ + launches_ / 4) break;
    set_launches(wanted);
    graph(start_);
    cuda::record(begin, stream_);
    enqueue_next();
    cuda::record(end, stream_);
    cuda::synchronize(stream_);
    rough_us = cuda::elapsed_us(begin, end) / launches_;
  }
  return rough_us;
}

Benchmark::Benchmark(Harness& harness, Producer& producer, const Nvml& nvml, double highest_mhz, bool& follows_clock,
                     const cuda::Stream& stream)
    : harness_(harness),
      producer_(producer),
      nvml_(nvml),
      highest_mhz_(highest_mhz),
      follows_clock_(follows_clock),
      stream_(stream) {}

Rotation Benchmark::rotation_of(LoadedPlan& plan, Timing timing, std::int64_t turns) {
  Rotation::Enqueue enqueue = [&plan](std::int64_t turn) { plan.enqueue(turn); };
  if (timing == Timing::alone) enqueue = [&plan](std::int64_t turn) { plan.enqueue_alone(turn); };
  if (timing == Timing::chained) {
    enqueue = [this, &plan](std::int64_t turn) {
      producer_.enqueue(turn);
      plan.enqueue(turn);
    };
  }
  return Rotation(std::move(enqueue), forget_of(plan), turns, stream_);
}

Rotation::Forget Benchmark::forget_of(LoadedPlan& plan) {
  return [this, &plan] {
    plan.poison_scratch();
    harness_.wipe_shared();
  };
}

namespace {

std::vector<double> times_of(const std::vector<TimedSample>& samples) { return gathered(samples, &TimedSample::us); }

double take_off(double sample_us, double producer_us) { return std::max(kLeastUs, sample_us - producer_us); }

}  // namespace

double Benchmark::producer_us(std::int64_t turns, double sample_us, int count) {
  if (!producing_) {
    producing_.emplace([this](std::int64_t turn) { producer_.enqueue(turn); }, Rotation::Forget(), turns, stream_);
    producing_->fit_graph_length(kSampleUs, sample_us);
  }
  const std::vector<Rotation*> order(static_cast<std::size_t>(count), &*producing_);
  for (const double us : times_of(sample(order, false))) producer_samples_us_.push_back(us);
  if (producer_samples_us_.size() > kProducerMemory) {
    const auto old = static_cast<std::ptrdiff_t>(producer_samples_us_.size() - kProducerMemory);
    producer_samples_us_.erase(producer_samples_us_.begin(), producer_samples_us_.begin() + old);
  }
  return median_interval(producer_samples_us_).median;
}

std::vector<TimedSample> Benchmark::timed_graphs(const std::vector<Rotation*>& order, bool ends_with_last) {
  std::map<Rotation*, int> uses;
  for (Rotation* const rotation : order) ++uses[rotation];
  for (const auto& [rotation, count] : uses) rotation->prepare(count);
  std::vector<cuda::Event> marks;
  for (std::size_t i = 0; i < 2 * order.size(); ++i) marks.push_back(cuda::make_event());
  const auto began = Clock::now();
  if (began - load_ended_ > kLongestPause) load_began_ = began;
  HeldStream held(harness_, holds_);
  for (std::size_t i = 0; i < order.size(); ++i) {
    Rotation& rotation = *order[i];
    if (ends_with_last && i + 1 == order.size()) rotation.end_with_last();
    rotation.forget();
    const int place = static_cast<int>(2 * i);
    harness_.tick(place);
    cuda::record(marks[2 * i], stream_);
    rotation.enqueue_next();
    cuda::record(marks[2 * i + 1], stream_);
    harness_.tick(place + 1);
  }
  held.release();
  cuda::synchronize(stream_);
  load_ended_ = Clock::now();
  std::vector<TimedSample> samples;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int place = static_cast<int>(2 * i);
    samples.push_back({cuda::elapsed_us(marks[2 * i], marks[2 * i + 1]) / order[i]->launches(),
                       harness_.clock_mhz(place, place + 1)});
  }
  return samples;
}

std::vector<TimedSample> Benchmark::sample(const std::vector<Rotation*>& order, bool ends_with_last) {
  std::vector<TimedSample> samples = timed_graphs(order, ends_with_last);
  for (int attempt = 1; holds_ && harness_.gave_up(); ++attempt) {
    // A profiler, or CUDA_LAUNCH_BLOCKING, ends each launch before the next is enqueued: no launch can wait
    // for what comes behind it.
    if (attempt == kHoldAttempts) holds_ = false;
    samples = timed_graphs(order, ends_with_last);
  }
  return samples;
}

double Benchmark::loaded_us() const {
  if (Clock::now() - load_ended_ > kLongestPause) return 0;
  return std::chrono::duration<double, std::micro>(load_ended_ - load_began_).count();
}

Measurement Benchmark::summarize(std::vector<double> samples_us, std::vector<double> clocks_mhz) const {
  Measurement measurement;
  const MedianInterval interval = median_interval(samples_us);
  measurement.median_us = interval.median;
  measurement.low_us = interval.low;
  measurement.high_us = interval.high;
  measurement.samples_us = std::move(samples_us);
  const Nvml::Reading reading = nvml_.read();
  const double clock = clocks_mhz.empty() ? 0 : median_interval(std::move(clocks_mhz)).median;
  measurement.sm_clock_mhz = clock > 0 ? static_cast<int>(std::lround(clock)) : reading.sm_clock_mhz;
  measurement.memory_clock_mhz = reading.memory_clock_mhz;
  measurement.temperature_c = reading.temperature_c;
  measurement.throttled = reading.throttled;
  return measurement;
}

Benchmark::Timed Benchmark::measure(LoadedPlan& plan, std::int64_t turns, double rough_us, const MeasurePolicy& policy,
                                    Deadline deadline) {
  std::vector<double> samples, clocks;
  const auto too_slow = [&](double seen_us) {
    return Timed{Outcome::too_slow,
                 microseconds(seen_us) + " at first look; dropped above " + microseconds(policy.drop_above_us),
                 summarize(samples, clocks)};
  };
  if (rough_us > kHopeless * policy.drop_above_us + kFirstRunSlackUs) {
    samples = {rough_us};
    return too_slow(rough_us);
  }

  const auto fits = [&](int count, double launch_us, int launches) {
    return seconds_left(deadline) > 1.5e-6 * count * launches * launch_us;
  };
  if (!fits(policy.quick_samples + 1, rough_us, launches_per_sample(rough_us, turns, kSampleUs))) {
    return {Outcome::timed_out,
            "one run takes " + microseconds(rough_us) + ": too long to measure within its time limit",
            {}};
  }
  Rotation rotation = rotation_of(plan, policy.timing, turns);
  const bool chained = policy.timing == Timing::chained;
  const bool is_known = producer_samples_us_.size() == kProducerMemory;
  const double producer = chained ? producer_us(turns, kSampleUs, is_known ? 1 : kProducerSamples) : 0;
  const double launch_us = rotation.fit_graph_length(rough_us, kSampleUs);

  const auto take = [&](int count) {
    const std::vector<Rotation*> order(static_cast<std::size_t>(count), &rotation);
    for (const TimedSample& sample : sample(order, true)) {
      samples.push_back(take_off(sample.us, producer));
      clocks.push_back(sample.clock_mhz);
    }
  };
  take(std::max(1, policy.quick_samples));
  const double quick_us = *std::min_element(samples.begin(), samples.end());
  if (quick_us > policy.drop_above_us) return too_slow(quick_us);

  const auto size = [&] { return static_cast<int>(samples.size()); };
  while (size() < policy.max_samples) {
    const MedianInterval now = median_interval(samples);
    if (size() >= policy.min_samples && now.high - now.low <= policy.relative_width * now.median) break;
    const int next =
        std::min(size() < policy.min_samples ? policy.min_samples - size() : kBatch, policy.max_samples - size());
    if (!fits(next, launch_us, rotation.launches())) break;
    take(next);
  }
  return {Outcome::ok, "", summarize(std::move(samples), std::move(clocks))};
}

Benchmark::Pass Benchmark::first_pass(LoadedPlan& plan, std::int64_t turns, std::int64_t last, Timing timing,
                                      int most) {
  Rotation rotation = rotation_of(plan, timing, turns);
  rotation.set_last(last);
  rotation.set_launches(static_cast<int>(std::min<std::int64_t>(turns, most)));
  const double producer = timing == Timing::chained ? producer_us(turns, kSampleUs, 1) : 0;
  const TimedSample sampled = sample({&rotation}, true).front();
  return {take_off(sampled.us, producer) * rotation.launches(), rotation.launches(), sampled.clock_mhz};
}

Benchmark::Pass Benchmark::changing_pass(LoadedPlan& plan, int launches,
                                         const std::function<void(std::int64_t launch)>& change) {
  const auto enqueue = [&](std::int64_t launch) {
    change(launch);
    plan.enqueue(0);
  };
  Rotation rotation(enqueue, forget_of(plan), launches, stream_);
  rotation.set_last(launches - 1);
  rotation.set_launches(launches);
  const TimedSample sampled = sample({&rotation}, true).front();
  return {sampled.us * launches, launches, sampled.clock_mhz};
}

// A duel's rounds until enough of them count, or the deadline or `patience_s` ends.
Settling Benchmark::play_rounds(std::vector<Rotation>& rotations, const DuelPolicy& policy, double round_us,
                                Deadline deadline) {
  const std::size_t count = rotations.size(), wanted = static_cast<std::size_t>(policy.rounds);
  const double patience_s = policy.settling_s + 1e-6 * round_us * policy.rounds;
  const Deadline patience =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(patience_s));
  Settling settling(highest_mhz_, loaded_us());
  while (!settling.is_enough(wanted)) {
    const bool late = seconds_left(std::min(deadline, patience)) <= 0;
    if (late && settling.size() > 0) break;
    // The graphs of the first rounds serve all.
    const std::size_t of_these = settling.size() % wanted;
    if (of_these == 0) std::ranges::for_each(rotations, [](Rotation& rotation) { rotation.restart(); });
    const auto at_once = static_cast<std::size_t>(std::max(1.0, kDuelBatchUs / round_us));
    const std::size_t rounds = std::max<std::size_t>(1, std::min({wanted - of_these, at_once, kMostAtOnce / count}));
    std::vector<Rotation*> order;
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t place = 0; place < count; ++place)
        order.push_back(&rotations[(settling.size() + round + place) % count]);
    }
    const std::vector<TimedSample> samples = sample(order, false);
    for (std::size_t begin = 0; begin < samples.size(); begin += count) {
      std::vector<TimedSample> round(count);
      double busy_us = 0;
      for (std::size_t place = 0; place < count; ++place) {
        const auto who = static_cast<std::size_t>(order[begin + place] - rotations.data());
        round[who] = samples[begin + place];
        busy_us += round[who].us * rotations[who].launches();
      }
      settling.add(std::move(round), busy_us);
    }
  }
  return settling;
}

std::vector<Measurement> Benchmark::duel(const std::vector<LoadedPlan*>& plans, std::int64_t turns,
                                         const DuelPolicy& policy, Deadline deadline,
                                         std::optional<std::size_t>& failed, const LastSample& last) {
  std::vector<Rotation> rotations;
  double round_us = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    failed = i;
    Rotation& rotation = rotations.emplace_back(rotation_of(*plans[i], policy.timing, turns));
    const double launch_us = rotation.fit_graph_length(policy.sample_us, policy.sample_us);
    round_us += launch_us * rotation.launches();
    rotation.restart();  // so that plans which take equally long meet the same turns
    rotation.prepare(policy.rounds);
  }
  failed.reset();
  if (follows_clock_) std::this_thread::sleep_for(kRest);
  const Settling settling = play_rounds(rotations, policy, round_us, deadline);
  follows_clock_ = settling.follows_clock();
  double producer = 0;
  if (policy.timing == Timing::chained) {  // at the clocks of the rounds
    producer_samples_us_.clear();
    producer = producer_us(turns, policy.sample_us, kProducerSamples);
  }
  std::vector<std::size_t> counting = settling.counting();
  const bool settled =
      settling.is_enough(static_cast<std::size_t>(policy.rounds)) || counting.size() == settling.size();
  if (counting.empty()) {
    counting.resize(settling.size());
    std::iota(counting.begin(), counting.end(), std::size_t{0});
  }
  std::vector<Measurement> measurements;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<double> samples, clocks;
    for (const std::size_t round : counting) {
      samples.push_back(take_off(settling.round(round)[i].us, producer));
      clocks.push_back(settling.round(round)[i].clock_mhz);
    }
    measurements.push_back(summarize(std::move(samples), std::move(clocks)));
    measurements.back().settled = settled;
    measurements.back().follows_clock = follows_clock_;
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    failed = i;
    last.before();
    sample({&rotations[i]}, true);
    last.after(i);
  }
  failed.reset();
  return measurements;
}

}  // namespace moetune
