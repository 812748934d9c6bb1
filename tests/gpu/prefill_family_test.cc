// A configuration of prefill_attention serves its whole family from one cubin: other batches, lengths and numbers of
// heads, with tensors laid out as servers have them.
#include <doctest/doctest.h>

#include "base/resources.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/gpu/gpu.h"
#include "tests/kernels/random_prefill_call.h"

namespace moetune {
namespace {

constexpr int kPrefillMembers = 15;
constexpr int kDraws = 1000;  // a device without wgmma has none of that body
constexpr std::int64_t kLongestPrefill = 1500;

std::vector<Config> prefill_configs(const Kernel& kernel, const Problem& problem, std::mt19937_64& random) {
  const std::string file = "spaces/prefill_attention.json";
  const Space space = Space::parse(read_resource(file), file);
  const Assignment environment = expression_environment(problem, gpu().info().limits);
  const LegalSpace legal = space.enumerate(environment, Rules::must);
  const std::optional<Config> first = space.default_config(environment);
  REQUIRE(first);
  CAPTURE(kernel.name());
  // The default, one of each body, and what comes.
  std::vector<Config> configs = {*first};
  for (const char* const body : {"mma", "wgmma", ""}) {
    for (int draw = 0; draw < kDraws; ++draw) {
      const Config config = legal.config(static_cast<ConfigId>(random() % legal.size()));
      if (*body != '\0' && !config.is("body", body)) continue;
      configs.push_back(config);
      break;
    }
  }
  return configs;
}

}  // namespace

TEST_CASE("a cubin of prefill_attention runs 15 random problems and calls of its family") {
  if (no_gpu()) return;
  const Kernel& kernel = find_kernel("prefill_attention");
  const DeviceLimits& limits = gpu().info().limits;
  std::mt19937_64 random(11);
  for (const char* text : kPrefillFamilies) {
    const Problem problem = kernel.parse(text);
    for (const Config& config : prefill_configs(kernel, problem, random)) {
      CAPTURE(config.text());
      const auto launcher = kernel.launcher(config, problem, limits);
      const BuildPtr build = compile_for_gpu(launcher->unit());
      REQUIRE_MESSAGE(build->outcome == Outcome::ok, build->message);
      RandomPrefills members(kernel, problem, kLongestPrefill, random());
      for (int i = 0; i < kPrefillMembers; ++i) {
        const FamilyMember member = members.next();
        CAPTURE(member.problem.text());
        gpu().open(kernel, member.problem, member.call, 3);
        Plan plan;
        plan.unit = launcher->unit();
        launcher->plan(kernel.extents_of(member.problem), member.call, plan);
        const TrialResult result = gpu().run({config, plan, build}, one_sample());
        CHECK_MESSAGE(result.outcome == Outcome::ok, result.message);
      }
    }
  }
}

TEST_CASE("with strides of the caller's own prefill_attention's reference agrees with float64 on the CPU") {
  if (no_gpu()) return;
  const Kernel& kernel = find_kernel("prefill_attention");
  for (const char* text : kPrefillFamilies) {
    RandomPrefills members(kernel, kernel.parse(text), 120, 9);
    const FamilyMember member = members.next();
    CAPTURE(member.problem.text());
    gpu().open(kernel, member.problem, member.call, 5);
    check_exact_reference(kernel, member.problem, member.call, 5);
  }
}

}  // namespace moetune
