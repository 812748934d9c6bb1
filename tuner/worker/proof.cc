#include "tuner/worker/proof.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

namespace moetune {
namespace {

constexpr int kMostLaunches = 256;
constexpr std::uint64_t kAttempts = 3;
// Tolerance of a pass over the measured time of the same launches: starting a graph, and clocks that differ.
constexpr double kSlackUs = 20, kFactor = 1.3;
// So that a time slice of another process, or a dip of the clocks, does not last through all attempts.
constexpr std::chrono::milliseconds kPauseBetween{100};
// The extra time allowed to a graph whose launches each get new inputs, over one whose launches all get the same: a
// total, and a share of the measured time.
constexpr double kContentsSlackUs = 4, kContentsShare = 0.25;

std::string slower_text(double first_us, double known_us) {
  char text[160];
  std::snprintf(text, sizeof text,
                "takes %.2f us a launch on inputs that it meets for the first time, and %.2f on those it knows: it "
                "remembers results",
                first_us, known_us);
  return text;
}

// By time or, at other clocks, by cycles.
bool is_as_fast(const Benchmark::Pass& pass, const Measurement& measured) {
  double us = pass.us;
  if (pass.clock_mhz > 0 && measured.sm_clock_mhz > 0) us *= std::min(1.0, pass.clock_mhz / measured.sm_clock_mhz);
  return us <= kSlackUs + kFactor * measured.median_us * pass.launches;
}

// Whether the launches of a graph are right although the outputs hold something already, and the launch behind them
// although they hold nothing: of a candidate that computes only every other time, one of the two is wrong.
Validation judge_passes(LoadedPlan& plan, Tensors& tensors, Benchmark& benchmark, Timing timing,
                        Benchmark::Pass& pass) {
  pass = benchmark.first_pass(plan, tensors.turns(), tensors.judged_turn(), timing, kMostLaunches);
  const Validation validation = tensors.judge_written();
  if (!validation.right) return validation;
  tensors.poison_outputs();
  benchmark.first_pass(plan, tensors.turns(), tensors.judged_turn(), timing, 1);
  return tensors.judge_written();
}

// Two graphs of launches over the same addresses, in front of each of which the inputs are copied there: other ones
// each time, or the same. What remembers results is wrong in the first or slower than in the second. One launch by
// itself would be too short to tell: what a graph adds to it is more than it takes.
Validation judge_contents(LoadedPlan& plan, Tensors& tensors, Benchmark& benchmark, const Measurement& measured) {
  const int count = tensors.contents();
  double lost_us = 0;
  for (std::uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(kPauseBetween);
    const Benchmark::Pass others =
        benchmark.changing_pass(plan, count, [&](std::int64_t launch) { tensors.put_contents(launch); });
    if (const Validation validation = tensors.judge_written(); !validation.right) return validation;
    const Benchmark::Pass same =
        benchmark.changing_pass(plan, count, [&](std::int64_t launch) { tensors.put_contents(count + launch); });
    lost_us = others.us - same.us;
    if (lost_us <= kContentsSlackUs + kContentsShare * measured.median_us * count) return {.right = true};
  }
  return {.reason = slower_text(measured.median_us + lost_us / count, measured.median_us)};
}

}  // namespace

Validation prove(LoadedPlan& plan, Tensors& tensors, Benchmark& benchmark, Timing timing, const Measurement& measured) {
  tensors.use(InputSet::other);
  Validation validation;
  if (tensors.accumulates()) {
    validation = tensors.validate(plan, false);
  } else {
    Benchmark::Pass pass;
    validation = judge_passes(plan, tensors, benchmark, timing, pass);
    for (std::uint64_t again = 1; again < kAttempts && !is_as_fast(pass, measured); ++again) {
      std::this_thread::sleep_for(kPauseBetween);
      tensors.stir(again);
      pass = benchmark.first_pass(plan, tensors.turns(), tensors.judged_turn(), timing, kMostLaunches);
    }
    if (validation.right && !is_as_fast(pass, measured))
      validation = {.reason = slower_text(pass.us / pass.launches, measured.median_us)};
    const bool is_short = kSlackUs > kContentsShare * measured.median_us;
    if (validation.right && is_short && tensors.contents() > 0)
      validation = judge_contents(plan, tensors, benchmark, measured);
    if (const std::string damage = tensors.damage(plan); !damage.empty()) {
      validation.damaged = true;
      validation.reason = damage;
    }
  }
  validation.right = validation.reason.empty();
  if (!validation.right) validation.reason += " (on other inputs at the same addresses)";
  tensors.use(InputSet::usual);
  return validation;
}

}  // namespace moetune
