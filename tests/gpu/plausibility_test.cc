// What the driver says of clocks and bus, against what the GPU does: honest kernels are never implausible.
#include "tuner/plausibility.h"

#include <doctest/doctest.h>

#include "base/resources.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/problems.h"

namespace moetune {
namespace {

constexpr std::uint64_t kInputs = 5;

// The default's time, and the least without calibration; 0 and 0 if the space has no default there.
std::pair<double, double> time_and_least(const Kernel& kernel, const Problem& problem) {
  const std::string file = "spaces/" + kernel.name() + ".json";
  const DeviceInfo& info = gpu().info();
  const Space space = Space::parse(read_resource(file), file);
  const std::optional<Config> config = space.default_config(expression_environment(problem, info.limits));
  if (!config) return {0, 0};
  gpu().open(kernel, problem, kInputs);
  Plan plan = kernel.plan(*config, problem, info.limits);
  const BuildPtr build = compile_for_gpu(plan.unit);
  const TrialResult result = gpu().run({*config, std::move(plan), build}, {});
  CHECK_MESSAGE(result.outcome == Outcome::ok, result.message);
  return {result.measurement.median_us,
          least_time_us(kernel, problem, Timing::overlapped, {}, peak_of(info.key, info.memory_bus_bits))};
}

}  // namespace

TEST_CASE("a stream of memory takes no less than clock and bus allow, and not twice that") {
  if (no_gpu()) return;
  CHECK(gpu().info().memory_bus_bits >= 64);
  const Kernel& kernel = find_kernel("decode_kernel");
  const Problem problem = kernel.parse("elements=268435456,write=none");
  const auto [time_us, least_us] = time_and_least(kernel, problem);
  MESSAGE(time_us << " us, at least " << least_us);
  CHECK(least_us > 0);
  CHECK(time_us >= least_us);
  CHECK(time_us < 2 * least_us);
}

TEST_CASE("no default of any kernel is implausible by the GPU's peak") {
  if (no_gpu()) return;
  for (const Kernel* kernel : all_kernels()) {
    for (const Problem& problem : small_problems(*kernel)) {
      CAPTURE(kernel->name());
      CAPTURE(problem.text());
      const auto [time_us, least_us] = time_and_least(*kernel, problem);
      CHECK_MESSAGE(why_implausible(time_us, least_us) == "", time_us << " us, at least " << least_us);
    }
  }
}

}  // namespace moetune
