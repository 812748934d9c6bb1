// The useful rules of a space are guesses at speed: what breaks one of them compiles all the same and fits
// the device.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <thread>

#include "base/resources.h"
#include "kernels/registry.h"
#include "search/random.h"
#include "search/space.h"
#include "tests/sanitized.h"
#include "tuner/compile/compile_pool.h"
#include "tuner/compile/launchable.h"

using namespace moetune;

namespace {

// One configuration for each useful rule that is the first that it breaks, by that rule.
std::map<std::string, Config> rule_breakers(const Space& space, const Assignment& environment,
                                            Random& random) {
  const LegalSpace can_run = space.enumerate(environment, Rules::must);
  std::map<std::string, Config> found;
  for (int i = 0; i < 3000; ++i) {
    const Config config = can_run.config(static_cast<ConfigId>(random.below(can_run.size())));
    const std::string why = space.why_illegal(config, environment);
    if (!why.empty()) found.emplace(why, config);
  }
  return found;
}

// Spills and registers are the compiler's to decide.
bool is_sure(const std::string& reason) {
  return !reason.empty() && reason.find("spills") == std::string::npos &&
         reason.find("registers") == std::string::npos;
}

struct Submission {
  std::string what;
  Plan plan;
  std::shared_future<BuildPtr> build;
};

}  // namespace

TEST_CASE("configurations that break useful rules alone compile and fit the device") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  const Compiler compiler({.architecture = "sm_90a"});
  CompilePool pool(compiler, std::thread::hardware_concurrency());
  std::vector<Submission> submitted;
  Random random(7);
  for (const auto& [kernel_name, text] : {std::pair<const char*, const char*>{"decode_attention", ""},
                                          {"decode_attention", "batch=2,q_heads=64,kv_heads=2,page=64"},
                                          {"decode_kernel", ""},
                                          {"prefill_attention", "batch=8,seqlen_q=100"}}) {
    const Kernel& kernel = find_kernel(kernel_name);
    const std::string path = "spaces/" + kernel.name() + ".json";
    const Space space = Space::parse(read_resource(path), path);
    const Problem problem = parse_problem(kernel.name(), kernel.schema(), nullptr, text);
    const auto breakers = rule_breakers(space, expression_environment(problem, limits), random);
    CHECK(breakers.size() >= 2);
    for (const auto& [why, config] : breakers) {
      Plan plan = kernel.plan(config, problem, limits);
      auto build = pool.submit(plan.unit);
      submitted.push_back({why + ": " + config.text(), std::move(plan), std::move(build)});
    }
  }
  for (const Submission& each : submitted) {
    CAPTURE(each.what);
    const BuildPtr build = each.build.get();
    CHECK_MESSAGE(build->outcome == Outcome::ok, build->log);
    if (build->outcome != Outcome::ok) continue;
    const std::string reason = why_unlaunchable(each.plan, *build, limits);
    CHECK_MESSAGE(!is_sure(reason), reason);
  }
  MESSAGE(pool.stats().compiled << " compiled, " << pool.stats().compile_seconds << " s of compiling");
}
