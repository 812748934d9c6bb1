// An outcome belongs to what was judged: trials of another plan, input, check or reference are run again.
#include <doctest/doctest.h>

#include <functional>
#include <utility>

#include "tests/tuner/doubling_kernel.h"
#include "tests/tuner/grid_search.h"
#include "tests/tuner/temporary_cache.h"
#include "tuner/judgement.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

// What a repair of the host half may change.
class RepairedKernel final : public DoublingKernel {
 public:
  float fill = 1;
  Tolerance tolerance;
  std::uint32_t grid = 1, exact_grid = 1, baseline_grid = 1;

  using Kernel::buffers;
  using Kernel::reference;
  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override {
    std::vector<Buffer> buffers = DoublingKernel::buffers(problem, call, seed);
    buffers[0].fill.scale = fill;
    buffers[1].check = OutputCheck::within(tolerance);
    return buffers;
  }
  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    LaunchPlan plan;
    const auto doubling = DoublingKernel::launcher(config, problem, limits);
    doubling->plan({}, {}, plan);
    plan.launches[0].grid[0] = grid;
    return make_launcher(doubling->unit(), [plan](const Extents&, const Call&, LaunchPlan& out) { out = plan; });
  }
  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits& limits) const override {
    Plan plan = DoublingKernel::reference(which, problem, call, limits);
    plan.launches[0].grid[0] = which == Reference::exact ? exact_grid : baseline_grid;
    return plan;
  }
};

// Trials that ran, and wrong results of all 64; resumed ones count among these.
using RanAndWrong = std::pair<std::size_t, std::size_t>;

// One configuration in eight is wrong at first.
RanAndWrong search(const Kernel& kernel, TemporaryCache& stored, bool is_first = false) {
  Search search;
  search.request.kernel = &kernel;
  search.request.problem = doubling_problem(10);
  search.request.budget = 64;
  search.request.ready_first = true;
  search.request.drop_factor = 100;  // none is too slow: that depends on the order in which the compiler is done
  search.device.answer = [&](const Config& config) {
    if (is_first && config.number("x") == 4) return TrialResult{.outcome = Outcome::wrong_result, .message = "off"};
    return timed(landscape(config));
  };
  CompilePool compiler(doubling_compiler(), 1);
  const TuneResult result =
      tune(search.request,
           {.device = search.device, .cache = &stored.cache, .workload = stored.workload, .compiler = &compiler}, {});
  CHECK(result.counts.total() == 64);
  CHECK(result.counts.resumed == 64 - search.device.ran.size());
  return {search.device.ran.size(), result.counts[Outcome::wrong_result]};
}

}  // namespace

TEST_CASE("after a repair of what was judged every trial is run again, and only then") {
  using Repair = std::function<void(RepairedKernel&)>;
  const Repair repairs[] = {[](RepairedKernel& kernel) { kernel.fill = 2; },
                            [](RepairedKernel& kernel) { kernel.tolerance.terms = 1e6; },
                            [](RepairedKernel& kernel) { kernel.tolerance.baseline_factor = 3; },
                            [](RepairedKernel& kernel) { kernel.grid = 2; },
                            [](RepairedKernel& kernel) { kernel.exact_grid = 2; },
                            [](RepairedKernel& kernel) { kernel.baseline_grid = 2; }};
  for (const Repair& repair : repairs) {
    CAPTURE(&repair - repairs);
    TemporaryCache stored;
    RepairedKernel kernel;
    CHECK(search(kernel, stored, true) == RanAndWrong(64, 8));
    CHECK(search(kernel, stored) == RanAndWrong(0, 8));
    repair(kernel);
    CHECK(search(kernel, stored) == RanAndWrong(64, 0));
    CHECK(search(kernel, stored) == RanAndWrong(0, 0));
  }
}

TEST_CASE("trials from before there were digests are run again once") {
  TemporaryCache stored;
  const RepairedKernel kernel;
  search(kernel, stored, true);
  for (TrialRecord record : stored.cache.trials.of(stored.workload)) {
    record.provenance = R"({"strategy": "random", "seed": 1, "device": "cuda:0"})";
    stored.cache.trials.put(stored.workload, record);
  }
  CHECK(search(kernel, stored) == RanAndWrong(64, 0));
  CHECK(search(kernel, stored) == RanAndWrong(0, 0));
}

TEST_CASE("a record of another plan that hung once is no second hang") {
  TemporaryCache stored;
  RepairedKernel kernel;
  const LegalSpace space = grid();
  const Config config = space.config(0);
  const DeviceInfo device;
  const Judgement before(&kernel, doubling_problem(10), device);
  const TrialRecord record =
      to_record(config, {.outcome = Outcome::timed_out, .message = "late"}, nullptr,
                {.strategy = "random", .seed = 1, .device = "cuda:0", .judged = before.of(config)});
  CHECK(before.holds(record, space));
  kernel.grid = 2;
  CHECK_FALSE(Judgement(&kernel, doubling_problem(10), device).holds(record, space));
}

TEST_CASE("what a recording says is true of it, and nothing that the space does not have") {
  const RepairedKernel kernel;
  const LegalSpace space = grid();
  TrialRecord record;
  record.config = space.config(3).text();
  const DeviceInfo gpu, recorded{.recorded = true};
  CHECK(Judgement(&kernel, doubling_problem(10), recorded).holds(record, space));
  CHECK(Judgement(nullptr, doubling_problem(10), gpu).holds(record, space));
  CHECK_FALSE(Judgement(&kernel, doubling_problem(10), gpu).holds(record, space));
  for (const char* strange : {"x=9,y=0", "x=1", "no configuration", ""}) {
    record.config = strange;
    CHECK_FALSE(Judgement(&kernel, doubling_problem(10), recorded).holds(record, space));
  }
}

}  // namespace moetune
