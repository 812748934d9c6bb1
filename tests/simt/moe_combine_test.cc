// moe_combine's templates on the CPU: the reference against float64, and configurations spread over the space against
// the reference rounded to bf16, bit for bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/kernel_space.h"
#include "kernels/moe_combine_plan.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/simt/simt_tensors.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// Configurations of each problem; MOETUNE_SIMT_SAMPLE takes more than CI has time for.
std::size_t combine_sample_size() {
  const char* const text = std::getenv("MOETUNE_SIMT_SAMPLE");
  return text != nullptr ? static_cast<std::size_t>(std::atoi(text)) : 4;
}

struct Combined {
  explicit Combined(const std::string& text)
      : kernel(find_kernel("moe_combine")),
        problem(parse_problem("moe_combine", kernel.schema(), nullptr, text)) {
    kernel.check(problem);
    call = kernel.default_call(problem);
    limits.sm_count = 3;  // several tokens a team
  }

  SimtTensors tensors(bool exact) const { return {kernel.buffers(problem, call, kSeed), kSeed, exact}; }
  std::vector<double> run(const Plan& plan, std::uint64_t schedule, bool exact) const {
    SimtDevice device(plan.unit, {.seed = schedule});
    SimtTensors own = tensors(exact);
    own.run(device, plan);
    return own.outputs().at("out");
  }
  std::vector<double> reference(Reference which) const {
    return run(kernel.reference(which, problem, call, limits), 0, which == Reference::exact);
  }

  static constexpr std::uint64_t kSeed = 13;
  const Kernel& kernel;
  Problem problem;
  Call call;
  DeviceLimits limits = limits_of_architecture("sm_90a");
};

void check_near(const std::vector<double>& got, const std::vector<double>& right, double error) {
  REQUIRE(got.size() == right.size());
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = right.size(); i-- > 0;) {
    if ((std::isnan(got[i]) && std::isnan(right[i])) || std::abs(got[i] - right[i]) <= error) continue;
    ++wrong;
    first = i;
  }
  CAPTURE(first);
  CAPTURE(got[first]);
  CAPTURE(right[first]);
  CHECK(wrong == 0);
}

void check_sample(const Combined& one) {
  std::vector<double> right = one.reference(Reference::exact);
  for (double& value : right) value = round_to(DType::bf16, value);
  const LegalSpace can_run =
      shared_space("moe_combine").enumerate(expression_environment(one.problem, one.limits), Rules::must);
  for (std::size_t i = 1; i <= combine_sample_size(); ++i) {
    const Config config = can_run.config(i * 0x9E3779B97F4A7C15u % can_run.size());
    CAPTURE(config.text());
    check_near(one.run(one.kernel.plan(config, one.problem, one.call, one.limits), i, false), right, 0);
  }
}

const std::vector<std::string> kCombineProblems = {
    "tokens=9,hidden=264,experts=8,top_k=2,align=4",
    "tokens=1,hidden=8,experts=8,top_k=1,align=1",
    "tokens=5,hidden=2880,experts=16,top_k=4,align=8",
    "tokens=14,hidden=1032,experts=32,top_k=8,align=1,skew=zipf,capacity=80",
    "tokens=11,hidden=512,experts=8,top_k=3,align=16,skew=one,capacity=50",
    "tokens=3,hidden=4104,experts=16,top_k=16,align=2",
    "tokens=40,hidden=136,experts=64,top_k=6,align=4",
};

}  // namespace

TEST_CASE("simt: moe_combine's references agree with float64") {
  if (no_simt()) return;
  for (const std::string& text : kCombineProblems) {
    CAPTURE(text);
    const Combined one(text);
    const HostTensors right = one.kernel.reference_on_cpu(one.problem, one.call, one.tensors(false).inputs());
    check_near(one.reference(Reference::exact), right.at("out"), 1e-5);
    check_near(one.reference(Reference::baseline), right.at("out"), 0.1);
  }
}

TEST_CASE("simt: moe_combine configurations sum as the reference does, under several schedules") {
  if (no_simt()) return;
  for (const std::string& text : kCombineProblems) {
    CAPTURE(text);
    check_sample(Combined(text));
  }
}

TEST_CASE("simt: moe_combine with rows of the output that lie apart") {
  if (no_simt()) return;
  Combined one("tokens=7,hidden=264,experts=8,top_k=4,align=2,capacity=100,skew=zipf");
  one.call.integers[kCombineRow] = 288;
  check_sample(one);
}
