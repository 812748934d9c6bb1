// Device time of loaded plans: CUDA graphs that hold several launches of the whole plan, timed back to back by events,
// sampled until the median is known well enough. Launches take turns over copies of the inputs and orders of the
// sequences (Tensors::turns). A chained plan has a producer in front of each launch; the producer is timed by itself in
// the same way, and its time taken off.
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

namespace moetune {

using Deadline = std::chrono::steady_clock::time_point;

// How many launches one timed graph holds: enough for `sample_us`, and each turn as often as any other where that
// stays short.
int launches_per_sample(double time_us, std::int64_t turns, double sample_us);

// The graphs of one plan, or of what `enqueue` puts on the stream for a turn. Successive graphs go on where the
// last one stopped, so that inputs are cold even where a graph has fewer launches than there are turns.
class Rotation {
 public:
  using Enqueue = std::function<void(std::int64_t turn)>;
  Rotation(Enqueue enqueue, std::int64_t turns, const cuda::Stream& stream);

  // Runs graphs until one is as long as `sample_us`; `rough_us` is a first guess of one launch. Returns the
  // guess refined.
  double fit_graph_length(double rough_us, double sample_us);
  int launches() const { return launches_; }

  // Makes sure that the next `count` graphs exist, so that enqueueing them is quick.
  void prepare(int count);
  void enqueue_next();
  void restart() { start_ = 0; }  // the next graph begins with turn 0

 private:
  const cuda::Graph& graph(std::int64_t start);

  Enqueue enqueue_;
  std::int64_t turns_;
  const cuda::Stream& stream_;
  int launches_ = 0;
  std::int64_t start_ = 0;                      // the turn that the next graph begins with
  std::map<std::int64_t, cuda::Graph> graphs_;  // by start
};

class Benchmark {
 public:
  Benchmark(Harness& harness, Producer& producer, const Nvml& nvml, const cuda::Stream& stream);

  struct Timed {
    Outcome outcome = Outcome::ok;  // or too_slow, timed_out
    std::string message;
    Measurement measurement;
  };

  // As MeasurePolicy says. `rough_us` is the time of one launch as the validation saw it.
  Timed measure(LoadedPlan& plan, std::int64_t turns, double rough_us, const MeasurePolicy& policy,
                Deadline deadline);

  // One sample of each plan a round, the first of a round taking turns; fewer rounds where the deadline nears. Where a
  // plan fails, `failed` is its position.
  std::vector<Measurement> duel(const std::vector<LoadedPlan*>& plans, std::int64_t turns,
                                const DuelPolicy& policy, Deadline deadline,
                                std::optional<std::size_t>& failed);

 private:
  Rotation::Enqueue enqueue_of(LoadedPlan& plan, Timing timing) const;
  // The producer by itself, over the same turns: its median after `count` samples more.
  double producer_us(std::int64_t turns, double sample_us, int count);
  // Adds `count` samples, a graph each, between which the stream never waits for the host.
  void sample(Rotation& rotation, int count, std::vector<double>& samples_us);
  std::vector<double> timed_graphs(Rotation& rotation, int count);
  Measurement summarize(std::vector<double> samples_us) const;

  Harness& harness_;
  Producer& producer_;
  std::optional<Rotation> producing_;
  std::vector<double> producer_samples_us_;  // the latest
  const Nvml& nvml_;
  const cuda::Stream& stream_;
  bool holds_ = true;  // whether the stream can be held back while samples are enqueued
};

}  // namespace moetune
