// Device time of loaded plans: CUDA graphs that hold several launches of the whole plan, timed back to back by events,
// sampled until the median is known well enough. Launches take turns over copies of the inputs and orders of the
// sequences (Tensors::turns). A chained plan has a producer in front of each launch; the producer is timed by itself in
// the same way, and its time taken off. Before each sample a plan's scratch is poisoned and shared memory overwritten,
// so that nothing remembers results from one sample to the next.
//
// Lives in the worker; not thread-safe. Errors: cuda::CudaError.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tuner/device.h"
#include "tuner/worker/harness.h"
#include "tuner/worker/loaded_plan.h"
#include "tuner/worker/nvml.h"
#include "tuner/worker/producer.h"
#include "tuner/worker/settling.h"

namespace moetune {

using Deadline = std::chrono::steady_clock::time_point;

// How many launches one timed graph holds: enough for `sample_us`, and each turn as often as any other where that
// stays short.
int launches_per_sample(double time_us, std::int64_t turns, double sample_us);

// The graphs of one plan, or of what `enqueue` puts on the stream for a turn. Successive graphs go on where the
// last one stopped, so that inputs are cold even where a graph has fewer launches than there are turns. The first one
// begins with turn 1, so that whole rounds end with turn 0, whose right answer is known.
class Rotation {
 public:
  using Enqueue = std::function<void(std::int64_t turn)>;
  using Forget = std::function<void()>;
  // `forget` runs in front of each graph that is timed; it may be empty.
  Rotation(Enqueue enqueue, Forget forget, std::int64_t turns, const cuda::Stream& stream);

  // Runs graphs until one is as long as `sample_us`; `rough_us` is a first guess of one launch. Returns the
  // guess refined.
  double fit_graph_length(double rough_us, double sample_us);
  // Or this many launches a graph.
  void set_launches(int launches);
  int launches() const { return launches_; }

  // Makes sure that the next `count` graphs exist, so that enqueueing them is quick; and the one of end_with_last().
  void prepare(int count);
  void enqueue_next();
  void forget() const {
    if (forget_) forget_();
  }
  void restart() { start_ = 1 % turns_; }
  // The next graph ends with the last turn, 0 unless stated.
  void end_with_last() { start_ = ending_start(); }
  void set_last(std::int64_t turn) { last_ = turn; }

 private:
  std::int64_t ending_start() const { return ((last_ + 1 - launches_) % turns_ + turns_) % turns_; }
  const cuda::Graph& graph(std::int64_t start);

  Enqueue enqueue_;
  Forget forget_;
  std::int64_t turns_, last_ = 0;
  const cuda::Stream& stream_;
  int launches_ = 0;
  std::int64_t start_ = 0;                      // the turn that the next graph begins with
  std::map<std::int64_t, cuda::Graph> graphs_;  // by start
};

class Benchmark {
 public:
  // `highest_mhz` is the SM clock that nothing holds down; `follows_clock` whether the times of the latest duel
  // followed it (Settling), which the next one starts from.
  Benchmark(Harness& harness, Producer& producer, const Nvml& nvml, double highest_mhz, bool& follows_clock,
            const cuda::Stream& stream);

  struct Timed {
    Outcome outcome = Outcome::ok;  // or too_slow, timed_out
    std::string message;
    Measurement measurement;
  };

  // As MeasurePolicy says. `rough_us` is the time of one launch as the validation saw it. The last launch that was
  // timed was over turn 0.
  Timed measure(LoadedPlan& plan, std::int64_t turns, double rough_us, const MeasurePolicy& policy, Deadline deadline);

  // One sample of each plan a round, the first of a round taking turns, until as many rounds as asked ran at settled
  // clocks (settling.h); fewer where the deadline nears. At last one sample more of each, which ends with turn 0.
  // If a plan is known to have failed, `failed` is its position.
  struct LastSample {
    std::function<void()> before;
    std::function<void(std::size_t position)> after;  // of the plan
  };
  std::vector<Measurement> duel(const std::vector<LoadedPlan*>& plans, std::int64_t turns, const DuelPolicy& policy,
                                Deadline deadline, std::optional<std::size_t>& failed, const LastSample& last);

  // One graph of launches over turns that are all different, the last of them `last`, at most `most` launches. The time
  // of all of it, without the producer's, and the clock meanwhile.
  struct Pass {
    double us = 0;
    int launches = 0;
    double clock_mhz = 0;
  };
  Pass first_pass(LoadedPlan& plan, std::int64_t turns, std::int64_t last, Timing timing, int most);
  // One graph of launches over turn 0, each behind what `change` enqueues for it, whose time is part of the pass.
  Pass changing_pass(LoadedPlan& plan, int launches, const std::function<void(std::int64_t launch)>& change);

 private:
  Rotation rotation_of(LoadedPlan& plan, Timing timing, std::int64_t turns);
  Rotation::Forget forget_of(LoadedPlan& plan);
  // The producer by itself, over the same turns: its median after `count` samples more.
  double producer_us(std::int64_t turns, double sample_us, int count);
  // A graph of each rotation in turn, between which the stream never waits for the host. The last one ends with its
  // rotation's last turn if asked to.
  std::vector<TimedSample> sample(const std::vector<Rotation*>& order, bool ends_with_last);
  std::vector<TimedSample> timed_graphs(const std::vector<Rotation*>& order, bool ends_with_last);
  Settling play_rounds(std::vector<Rotation>& rotations, const DuelPolicy& policy, double round_us, Deadline deadline);
  double loaded_us() const;
  Measurement summarize(std::vector<double> samples_us, std::vector<double> clocks_mhz) const;

  Harness& harness_;
  Producer& producer_;
  std::optional<Rotation> producing_;
  std::vector<double> producer_samples_us_;  // the latest
  const Nvml& nvml_;
  double highest_mhz_;
  bool& follows_clock_;
  const cuda::Stream& stream_;
  bool holds_ = true;  // whether the stream can be held back while samples are enqueued
  std::chrono::steady_clock::time_point load_began_, load_ended_;  // the latest without a pause
};

}  // namespace moetune
