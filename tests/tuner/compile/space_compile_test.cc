// A seeded sample of every kernel's space, compiled with NVRTC for every generation: what a space calls legal
// must compile, and must fit the device its constraints were asked about. The problems are drawn ones and,
// shared out over the generations, those that the GPU tests run.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/resources.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/gpu/problems.h"
#include "tests/sanitized.h"
#include "tuner/compile/compile_pool.h"

using namespace moetune;

namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"};
constexpr int kDrawn = 1;           // problems of a kernel, for each architecture
constexpr int kConfigurations = 1;  // of a problem, beside its default

struct Submitted {
  std::string what;
  Plan plan;
  std::shared_future<BuildPtr> build;
};

Space space_of(const Kernel& kernel) {
  const std::string file = "spaces/" + kernel.name() + ".json";
  return Space::parse(read_resource(file), file);
}

// A preset or none, with every named dimension and every integer of a small range drawn anew.
Problem draw_problem(const Kernel& kernel, std::mt19937& random) {
  const std::vector<Preset>& presets = kernel.presets();
  while (true) {
    const std::size_t choice = random() % (presets.size() + 1);
    Problem problem =
        parse_problem(kernel.name(), kernel.schema(), choice == 0 ? nullptr : &presets[choice - 1], "");
    for (const Dimension& dimension : kernel.schema()) {
      if (dimension.names.empty()) {
        const std::int64_t values = dimension.maximum - dimension.minimum + 1;
        if (values <= 8) {
          const auto drawn = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(values));
          problem.dims.set(dimension.name, Value::integer(dimension.minimum + drawn));
        }
        continue;
      }
      const std::size_t position = random() % dimension.names.size();
      problem.dims.set(dimension.name,
                       Value::named(dimension.names[position], static_cast<std::int64_t>(position)));
    }
    try {
      kernel.check(problem);
      return problem;
    } catch (const BadInput&) {
      continue;  // the draw broke a rule across dimensions
    }
  }
}

// Every problem falls to one architecture.
std::vector<Problem> problems_for(const Kernel& kernel, std::size_t architecture, std::mt19937& random) {
  std::vector<Problem> problems;
  for (int i = 0; i < kDrawn; ++i) problems.push_back(draw_problem(kernel, random));
  const std::vector<Problem> tested = small_problems(kernel);
  for (std::size_t i = architecture; i < tested.size(); i += std::size(kArchitectures))
    problems.push_back(tested[i]);
  return problems;
}

void submit_problem(const Kernel& kernel, const Problem& problem, const DeviceLimits& limits,
                    std::mt19937& random, CompilePool& pool, std::vector<Submitted>& submitted) {
  const auto submit = [&](const std::string& what, Plan plan) {
    auto build = pool.submit(plan.unit);
    submitted.push_back(
        {kernel.name() + " " + problem.text() + " " + what, std::move(plan), std::move(build)});
  };
  submit("exact reference", kernel.reference(Reference::exact, problem, limits));
  submit("baseline reference", kernel.reference(Reference::baseline, problem, limits));
  const Space space = space_of(kernel);
  const Assignment environment = expression_environment(problem, limits);
  const LegalSpace legal = space.enumerate(environment);
  REQUIRE_MESSAGE(!legal.empty(), kernel.name() << " " << problem.text());
  if (const auto config = space.default_config(environment))
    submit(config->text(), kernel.plan(*config, problem, limits));
  for (int i = 0; i < kConfigurations; ++i) {
    const Config config = legal.config(static_cast<ConfigId>(random() % legal.size()));
    submit(config.text(), kernel.plan(config, problem, limits));
  }
}

// Registers are the compiler's to decide; all else a space's constraints can foresee.
bool foreseeable(const std::string& reason) {
  return !reason.empty() && reason.find("registers") == std::string::npos;
}

}  // namespace

TEST_CASE("a sample of every space compiles for every generation and fits the device") {
  for (std::size_t generation = 0; generation < std::size(kArchitectures); ++generation) {
    const std::string architecture = kArchitectures[generation];
    if (kSanitized && architecture != "sm_90a") continue;
    const DeviceLimits limits = limits_of_architecture(architecture);
    Compiler::Options options;
    options.architecture = architecture;
    const Compiler compiler(options);
    CompilePool pool(compiler, std::thread::hardware_concurrency());
    std::vector<Submitted> submitted;
    std::mt19937 random(2026);
    for (const Kernel* kernel : all_kernels()) {
      for (const Problem& problem : problems_for(*kernel, generation, random))
        submit_problem(*kernel, problem, limits, random, pool, submitted);
    }
    for (const Submitted& each : submitted) {
      CAPTURE(architecture);
      CAPTURE(each.what);
      const BuildPtr build = each.build.get();
      CHECK_MESSAGE(build->outcome == Outcome::ok, build->log);
      if (build->outcome != Outcome::ok) continue;
      const std::string reason = why_unlaunchable(each.plan, *build, limits);
      CHECK_MESSAGE(!foreseeable(reason), reason);
    }
    const CompilePool::Stats stats = pool.stats();
    MESSAGE(architecture << ": " << stats.compiled << " compiled, " << stats.compile_seconds
                         << " s of compiling");
  }
}
