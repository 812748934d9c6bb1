// Kernels of the shapes that other tuners' examples have (tests/data/kernels): their folders load, and their sources
// compile as they are.
#include <doctest/doctest.h>

#include <thread>

#include "kernels/described/folders.h"
#include "kernels/kernel_space.h"
#include "tests/paths.h"
#include "tuner/compile/compile_pool.h"
#include "tuner/compile/launchable.h"

namespace moetune::user_shapes_compile_test {
namespace {

struct Compiling {
  std::string what;
  Plan plan;
  std::shared_future<BuildPtr> build;
};

}  // namespace

TEST_CASE("17 kernels of the shapes of other tuners' examples compile for Hopper and can be launched") {
  const DescribedKernels loaded = load_described_kernels(paths::source("tests/data/kernels").c_str(), {});
  CHECK(loaded.broken.empty());
  REQUIRE(loaded.kernels.size() == 17);
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  const Compiler compiler(Compiler::Options{.architecture = "sm_90a"});
  CompilePool pool(compiler, std::thread::hardware_concurrency());
  std::vector<Compiling> compiling;
  for (const auto& kernel : loaded.kernels) {
    const Problem problem = kernel->parse("");
    kernel->check(problem);
    const Assignment environment = expression_environment(problem, limits);
    const Space& space = shared_space(kernel->name());
    const LegalSpace legal = space.enumerate(environment);
    REQUIRE(legal.size() > 0);
    const auto submit = [&](const std::string& what, const Plan& plan) {
      compiling.push_back({kernel->name() + " " + what, plan, pool.submit(plan.unit)});
    };
    submit("reference", kernel->reference(Reference::exact, problem, limits));
    for (const ConfigId id : {ConfigId{0}, static_cast<ConfigId>(legal.size() / 2)}) {
      const Config config = legal.config(id);
      submit(config.text(), kernel->plan(config, problem, limits));
    }
  }
  for (const Compiling& one : compiling) {
    const BuildPtr build = one.build.get();
    CHECK_MESSAGE(build->outcome == Outcome::ok, one.what << ": " << build->log);
    if (build->outcome == Outcome::ok) CHECK_MESSAGE(why_unlaunchable(one.plan, *build, limits).empty(), one.what);
  }
}

}  // namespace moetune::user_shapes_compile_test
