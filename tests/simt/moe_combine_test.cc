// moe_combine's templates on the CPU: the reference against float64, and configurations spread over the space against
// the reference rounded to bf16, bit for bit.
#include <doctest/doctest.h>

#include <cmath>

#include "kernels/moe/moe_problem.h"
#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

SimtProblem combined(const std::string& text) {
  SimtProblem one("moe_combine", text, 3);  // several tokens a team
  one.seed = 13;
  return one;
}

// Off by no more than `error`, or NaN both.
IsRight within(double error) {
  return [error](const std::string&, double got, double right) {
    return (std::isnan(got) && std::isnan(right)) || std::abs(got - right) <= error;
  };
}

void check_sample(const SimtProblem& one) {
  HostTensors right = one.reference(Reference::exact);
  for (double& value : right.at("out")) value = round_to(DType::bf16, value);
  std::uint64_t schedule = 0;
  for (const Config& config : one.sample(simt_sample(4), Rules::must)) {
    CAPTURE(config.text());
    check_outputs(one.run(config, ++schedule), right, within(0));
  }
}

const std::vector<std::string> kCombineProblems = {
    "tokens=9,hidden=264,experts=8,top_k=2,align=4",
    "tokens=1,hidden=8,experts=8,top_k=1,align=1",
    "tokens=5,hidden=2880,experts=16,top_k=4,align=8",
    "tokens=14,hidden=1032,experts=32,top_k=8,align=1,skew=zipf,capacity=80",
    "tokens=11,hidden=512,experts=8,top_k=3,align=16,skew=one,capacity=50",
    "tokens=3,hidden=4104,experts=16,top_k=16,align=2",
    "tokens=5,hidden=264,experts=896,top_k=22,align=1",
    "tokens=3,hidden=136,experts=1024,top_k=32,align=2",
    "tokens=40,hidden=136,experts=64,top_k=6,align=4",
};

}  // namespace

TEST_CASE("simt: moe_combine's references agree with float64") {
  for (const std::string& text : kCombineProblems) {
    CAPTURE(text);
    const SimtProblem one = combined(text);
    const HostTensors right = one.on_cpu();
    check_outputs(one.reference(Reference::exact), right, within(1e-5));
    check_outputs(one.reference(Reference::baseline), right, within(0.1));
  }
}

TEST_CASE("simt: moe_combine configurations sum as the reference does, under several schedules") {
  for (const std::string& text : kCombineProblems) {
    CAPTURE(text);
    check_sample(combined(text));
  }
}

TEST_CASE("simt: moe_combine with rows of the output that lie apart") {
  SimtProblem one = combined("tokens=7,hidden=264,experts=8,top_k=4,align=2,capacity=100,skew=zipf");
  one.call.integers[kMoeRow] = 288;
  check_sample(one);
}
