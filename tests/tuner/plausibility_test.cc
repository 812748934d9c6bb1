// Times that no GPU can have: what is the least, and what becomes of a trial that takes less.
#include "tuner/plausibility.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/tuner/doubling_kernel.h"
#include "tests/tuner/grid_search.h"
#include "tests/tuner/temporary_cache.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

HardwareKey h200() {
  return {.name = "NVIDIA H200",
          .compute_capability = 90,
          .sm_count = 132,
          .l2_bytes = 60 << 20,
          .sm_clock_khz = 1'980'000,
          .memory_clock_khz = 3'201'000};
}

// A kernel whose cost a test sets; of the doubling kernel's buffers x rotates and is fresh.
class CostedKernel final : public DoublingKernel {
 public:
  Cost its_cost;
  Cost cost(const Problem&) const override { return its_cost; }
};

double least(const Cost& cost, Timing timing = Timing::overlapped, const Ceilings& ceilings = {}, int bus_bits = 6144,
             HardwareKey hardware = h200(), std::int64_t elements = 1'000'000'000) {
  CostedKernel kernel;
  kernel.its_cost = cost;
  return least_time_us(kernel, doubling_problem(elements), timing, ceilings, peak_of(hardware, bus_bits));
}

}  // namespace

TEST_CASE("a GPU's peak is its data sheet's") {
  const GpuPeak peak = peak_of(h200(), 6144);
  CHECK(peak.memory_tb_s == doctest::Approx(4.917).epsilon(0.001));
  CHECK(peak.bf16_tflop_s == doctest::Approx(1070).epsilon(0.01));  // 989 at the clock of the data sheet
  CHECK(peak.e4m3_tflop_s == doctest::Approx(2 * peak.bf16_tflop_s));
  const GpuPeak a100 = peak_of(
      {.compute_capability = 80, .sm_count = 108, .sm_clock_khz = 1'410'000, .memory_clock_khz = 1'215'000}, 5120);
  CHECK(a100.memory_tb_s == doctest::Approx(1.555).epsilon(0.001));
  CHECK(a100.bf16_tflop_s == doctest::Approx(312).epsilon(0.001));
  CHECK(a100.fp32_tflop_s == doctest::Approx(19.5).epsilon(0.001));
  // AGX Orin: 42.5 TFLOP/s of dense fp16 at 1.3 GHz.
  const GpuPeak orin = peak_of({.compute_capability = 87, .sm_count = 16, .sm_clock_khz = 1'300'000}, 256);
  CHECK(orin.bf16_tflop_s == doctest::Approx(42.5).epsilon(0.01));
  // A bus of unknown width is the widest there is; of an unknown architecture nothing is known of FLOPs.
  CHECK(peak_of(h200(), 0).memory_tb_s > peak.memory_tb_s);
  CHECK(peak_of({.compute_capability = 75, .sm_count = 40, .sm_clock_khz = 1}, 256).bf16_tflop_s == 0);
}

TEST_CASE("without calibration the least time is that of cold reads, writes beyond L2 and FLOPs at the peak") {
  const double gb_us = 1e9 / 4.917e12 * 1e6;
  CHECK(least({.read_bytes = 1e9}) == doctest::Approx(gb_us).epsilon(0.001));
  // Only 400 of these bytes take turns: the others may lie in L2.
  CHECK(least({.read_bytes = 1e9}, Timing::overlapped, {}, 6144, h200(), 100) < 1e-3);
  CHECK(least({.read_bytes = 1e9}, Timing::chained) == 0);  // what a producer has written
  CHECK(least({.read_bytes = 1e9, .inputs = Inputs::warm}) == doctest::Approx(0.937 * gb_us).epsilon(0.001));
  CHECK(least({.written_bytes = 60.0 * (1 << 20)}) == 0);
  CHECK(least({.written_bytes = 60.0 * (1 << 20) + 1e9}) == doctest::Approx(gb_us).epsilon(0.001));
  CHECK(least({.flops = {.bf16 = 1.07e15}}) == doctest::Approx(1e6).epsilon(0.01));
  CHECK(least({.flops = {.bf16 = 1.07e15, .fp16 = 1.07e15, .e4m3 = 2.14e15}}) == doctest::Approx(3e6).epsilon(0.01));
  CHECK(least({.read_bytes = 1e9}, Timing::overlapped, {}, 6144, {}) == 0);  // a key that says nothing
  // A GPU without a rate for e4m3 takes at least as long as at twice that of bf16.
  const HardwareKey a100{.compute_capability = 80, .sm_count = 108, .sm_clock_khz = 1'410'000};
  CHECK(least({.flops = {.e4m3 = 6.24e14}}, Timing::overlapped, {}, 5120, a100) == doctest::Approx(1e6).epsilon(0.001));
  // Measured ceilings go before it, of the same bytes.
  CHECK(least({.read_bytes = 1e9}, Timing::overlapped, {.read_tb_s = 4.0}, 6144, h200(), 100) < 1e-3);
  CHECK(least({.read_bytes = 1e9}, Timing::chained, {.read_tb_s = 4.0}) == 0);
  CHECK(least({.read_bytes = 1e9}, Timing::overlapped, {.read_tb_s = 4.0}) == doctest::Approx(250));
}

TEST_CASE("below 0.8 of the least a time cannot be; up to it, it is unusual") {
  CHECK(why_implausible(79.9, 100) == "faster than the GPU can be: 79.9 us, and no launch takes less than 100 us");
  CHECK(why_implausible(80, 100) == "");
  CHECK(why_implausible(1e-9, 0) == "");
  CHECK(is_unusual(80, 100));
  CHECK_FALSE(is_unusual(79.9, 100));
  CHECK_FALSE(is_unusual(100, 100));
  TrialResult slow{.outcome = Outcome::too_slow, .message = "dropped above 100 us"};
  slow.measurement.median_us = 150;
  reject_impossible(slow, 100);
  CHECK(slow.message == "dropped above 100 us");
}

TEST_CASE("an implausible trial has no time, leads nowhere, and is a failure for the strategy and the cache") {
  TemporaryCache stored;
  Search search;
  search.request.budget = 64;
  search.request.least_us = 100;
  search.device.answer = [](const Config& config) { return timed(config.number("x") == 7 ? 1.94 : landscape(config)); };
  const TuneResult result = search.run(&stored.cache, stored.workload);
  CHECK(result.counts[Outcome::implausible] == 8);
  REQUIRE(result.best);
  CHECK(result.best->config.text() == "x=3,y=5");  // at 100 us, which no other one is below
  CHECK(search.device.verified.size() == 1);
  std::size_t implausible = 0;
  for (const TrialRecord& record : stored.cache.trials.of(stored.workload)) {
    if (record.outcome != "implausible") continue;
    ++implausible;
    CHECK(record.time_us == 0);
  }
  CHECK(implausible == 8);
}

TEST_CASE("what becomes implausible in the duel, or was stored before, wins nothing either") {
  TemporaryCache stored;
  Search first;
  first.request.budget = 64;
  first.request.least_us = 100;
  first.device.duel_answer = [](const Config& config) {
    return timed(config.text() == "x=3,y=5" ? 2 : landscape(config));
  };
  const TuneResult result = first.run(&stored.cache, stored.workload);
  REQUIRE(result.best);
  CHECK(result.best->config.text() != "x=3,y=5");

  TemporaryCache merged;
  TrialRecord record = to_record(first.space.config(0), timed(1), nullptr, {.strategy = "random", .seed = 1});
  merged.cache.trials.put(merged.workload, record);
  Search second;
  second.request.budget = 64;
  second.request.least_us = 100;
  const TuneResult resumed = second.run(&merged.cache, merged.workload);
  CHECK(resumed.counts.resumed == 1);
  CHECK(resumed.counts[Outcome::implausible] == 1);
  CHECK(resumed.best->config.text() == "x=3,y=5");
}

TEST_CASE("a winner a little below the floor is judged once more, on inputs of no fixed seed, and is one if right") {
  std::set<std::uint64_t> seeds;
  for (int time = 0; time < 2; ++time) {
    Search search;
    search.request.budget = 64;
    search.request.least_us = 108;  // the best takes 100
    std::string warned;
    const auto listener = [&](const Event& event) {
      if (const auto* warning = std::get_if<Warning>(&event.what)) warned = warning->text;
    };
    const TuneResult result = search.run(nullptr, 0, {}, {.listener = listener});
    REQUIRE(result.best);
    CHECK(result.best->config.text() == "x=3,y=5");
    REQUIRE(search.device.verified.size() == 2);
    CHECK(search.device.verified[0] == ~search.request.seed);
    seeds.insert(search.device.verified[1]);
    CHECK(warned.find("93% of the least") != std::string::npos);
  }
  CHECK(seeds.size() == 2);
}

}  // namespace moetune
