// Kernels of the shapes that other tuners' examples have (tests/data/kernels), on the CPU: configurations spread over
// each space against the kernel's reference.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kernels/described/described_kernel.h"
#include "tests/paths.h"
#include "tests/simt/simt_problem.h"
#include "tests/texts.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

constexpr const char* kShapes = "tests/data/kernels/";
constexpr std::pair<const char*, const char*> kSmallProblems[] = {
    {"bicg", "rows=70,columns=45"},
    {"convolution", "width=37,height=21,filter=5"},
    {"coulomb", "atoms=5,size=8"},
    {"dedispersion", "samples=70,measures=5,channels=8,longest=9"},
    {"expdist", "m=45,n=37"},
    {"gemm", "m=128,n=128,k=32"},
    {"histogram", "n=3000"},
    {"hotspot", "width=37,height=29"},
    {"matmul_tiles", "n=64"},
    {"nbody", "bodies=128"},
    {"pnpoly", "points=77,vertices=12"},
    {"reduction", "n=5003"},
    {"scan", "n=3001"},
    {"sepconv", "width=45,height=13,radius=3"},
    {"spmv", "rows=67,columns=50,nonzeros=900"},
    {"stencil", "width=37,height=11"},
    {"transpose", "width=70,height=45"},
};

// A kernel's text, which reads its space, too.
std::string shape_text(const std::string& name) {
  return testing::read_text(paths::source(kShapes + name + "/kernel.json"));
}

HostTensors run_shape(const Kernel& kernel, const Problem& problem, Plan plan, bool exact) {
  plan.unit.source.replace(0, std::string("templates/").size(), kShapes);
  SimtDevice device(plan.unit, {.seed = exact ? 0u : 5u});
  SimtTensors tensors(kernel.buffers(problem, kernel.default_call(problem), 3), 3, exact);
  tensors.run(device, plan);
  return tensors.outputs();
}

bool nearly(const std::string&, double got, double right) { return is_near(got, right, 2e-5); }

}  // namespace

TEST_CASE("simt: kernels of the shapes of other tuners' examples compute what their references do") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const auto& [name, small] : kSmallProblems) {
    CAPTURE(name);
    const std::string text = shape_text(name);
    CHECK(std::count(text.begin(), text.end(), '\n') <= 20);
    const auto kernel = described_kernel(read_description(text, name, name));
    const Problem problem = kernel->parse(small);
    kernel->check(problem);
    const HostTensors right = run_shape(*kernel, problem, kernel->reference(Reference::exact, problem, limits), true);
    const LegalSpace space = Space::parse(text, name).enumerate(expression_environment(problem, limits));
    for (std::size_t i = 1; i <= simt_sample(2); ++i) {
      const Config config = space.config(i * 0x9E3779B97F4A7C15u % space.size());
      CAPTURE(config.text());
      check_outputs(run_shape(*kernel, problem, kernel->plan(config, problem, limits), false), right, nearly);
    }
  }
}
