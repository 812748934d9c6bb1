// A stored winner serves its whole family: the cubin that a search stored runs other batches, contexts and
// numbers of heads, with tensors laid out as servers have them, and nothing is compiled.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/resources.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/gpu/gpu.h"
#include "tests/kernels/random_call.h"
#include "tests/tuner/temporary_cache.h"
#include "tuner/trial_record.h"
#include "tuner/tune.h"

namespace moetune {
namespace {

constexpr std::size_t kBudget = 12;
constexpr int kMembers = 20;
constexpr std::int64_t kLongest = 6000;

const Space& space() {
  static const Space parsed =
      Space::parse(read_resource("spaces/decode_attention.json"), "spaces/decode_attention.json");
  return parsed;
}

// A short search; its winner as the cache gives it back.
Candidate stored_winner(const Kernel& kernel, const Problem& problem, std::uint64_t seed) {
  TemporaryCache stored;
  const Assignment environment = expression_environment(problem, gpu().info().limits);
  const LegalSpace legal = space().enumerate(environment);
  TuneRequest request;
  request.kernel = &kernel;
  request.problem = problem;
  request.space = &legal;
  request.default_config = space().default_config(environment);
  request.strategy = "random";
  request.seed = seed;
  request.budget = kBudget;
  const TuneResult result = tune(
      request, {.device = gpu(), .cache = &stored.cache, .workload = stored.workload, .compiler = &gpu_compiler()}, {});
  REQUIRE(result.best);
  const std::optional<WinnerRecord> winner = stored.cache.winners.find(stored.workload);
  REQUIRE(winner);
  return from_winner(*winner, result.best->config);
}

// decode_attention, but that its lengths say more than a sequence has room for, and one less than nothing.
class LongLengths final : public Kernel {
 public:
  const std::string& name() const override { return of_.name(); }
  const std::string& summary() const override { return of_.summary(); }
  const ProblemSchema& schema() const override { return of_.schema(); }
  const std::vector<Preset>& presets() const override { return of_.presets(); }
  void check(const Problem& problem) const override { of_.check(problem); }
  const std::vector<std::string>& free_dimensions() const override { return of_.free_dimensions(); }
  const CallSchema& call_schema() const override { return of_.call_schema(); }
  Call default_call(const Problem& problem) const override { return of_.default_call(problem); }
  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override {
    std::vector<Buffer> buffers = of_.buffers(problem, call, seed);
    for (Buffer& buffer : buffers) {
      if (buffer.name != "lengths") continue;
      std::fill(buffer.fill.integers.begin(), buffer.fill.integers.end(), 1000);
      buffer.fill.integers.at(1) = -3;
    }
    return buffers;
  }
  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    return of_.launcher(config, problem, limits);
  }
  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits& limits) const override {
    return of_.reference(which, problem, call, limits);
  }
  std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const override {
    return of_.family_interface(problem);
  }
  Cost cost(const Problem& problem) const override { return of_.cost(problem); }

 private:
  const Kernel& of_ = find_kernel("decode_attention");
};

}  // namespace

TEST_CASE("a stored winner runs 20 random problems and calls of its family from its cubin") {
  if (no_gpu()) return;
  const Kernel& kernel = find_kernel("decode_attention");
  const DeviceLimits& limits = gpu().info().limits;
  std::uint64_t seed = 1;
  for (const char* text : kFamilies) {
    const Problem problem = kernel.parse(text);
    const Candidate winner = stored_winner(kernel, problem, seed++);
    CAPTURE(winner.config.text());
    const auto launcher = kernel.launcher(winner.config, problem, limits);
    CHECK(launcher->unit() == winner.plan.unit);
    RandomMembers members(kernel, problem, kLongest, seed);
    std::size_t compiled = 0;
    for (int i = 0; i < kMembers; ++i) {
      const FamilyMember member = members.next();
      CAPTURE(member.problem.text());
      gpu().open(kernel, member.problem, member.call, seed);
      if (i == 0) compiled = gpu_compiler().stats().compiled;  // the references of the family, once
      Candidate candidate = winner;
      static_cast<LaunchPlan&>(candidate.plan) = {};
      launcher->plan(kernel.extents_of(member.problem), member.call, candidate.plan);
      const TrialResult result = gpu().run(candidate, one_sample());
      CHECK_MESSAGE(result.outcome == Outcome::ok, result.message);
    }
    CHECK(gpu_compiler().stats().compiled == compiled);
  }
}

TEST_CASE("with strides of the caller's own the exact reference agrees with float64 on the CPU") {
  if (no_gpu()) return;
  const Kernel& kernel = find_kernel("decode_attention");
  for (const char* text : kFamilies) {
    RandomMembers members(kernel, kernel.parse(text), 120, 9);
    const FamilyMember member = members.next();
    CAPTURE(member.problem.text());
    gpu().open(kernel, member.problem, member.call, 5);
    check_exact_reference(kernel, member.problem, member.call, 5);
  }
}

TEST_CASE("lengths past the room of a sequence are cut to it, and those below 0 count as 0") {
  if (no_gpu()) return;
  const LongLengths kernel;
  const DeviceLimits& limits = gpu().info().limits;
  // KV and the table have room for 640 tokens: queries see those.
  for (const char* text : {"batch=3,q_heads=16,kv_heads=2,context=640,page=64,lse=natural",
                           "batch=3,q_heads=16,kv_heads=2,context=640,lse=natural"}) {
    const Problem problem = kernel.parse(text);
    Call call = kernel.default_call(problem);
    set_field(call, kernel.call_schema(), "capacity", 640);
    const Assignment environment = expression_environment(problem, limits);
    const LegalSpace legal = space().enumerate(environment);
    gpu().open(kernel, problem, call, 3);
    for (ConfigId id = 0; id < legal.size(); id += 1 + static_cast<ConfigId>(legal.size() / 12)) {
      const Config config = legal.config(id);
      CAPTURE(config.text());
      const Plan plan = kernel.Kernel::plan(config, problem, call, limits);
      const TrialResult result = gpu().run({config, plan, compile_for_gpu(plan.unit)}, one_sample());
      CHECK_MESSAGE(result.outcome == Outcome::ok, result.message);
    }
  }
}

}  // namespace moetune
