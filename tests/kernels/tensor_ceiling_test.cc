#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/kernel.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"

namespace moetune::tensor_ceiling_test {

namespace {

const Kernel& kernel() { return find_kernel("tensor_ceiling"); }

Problem problem_of(const std::string& text) { return kernel().parse(text); }

LegalSpace legal_space(const Problem& problem, const DeviceLimits& limits) {
  return shared_space("tensor_ceiling").enumerate(expression_environment(problem, limits));
}

HostTensors inputs_of(const Problem& problem) {
  const std::vector<Buffer> buffers = kernel().buffers(problem, 7);
  return {{"a", host_values(buffers[0], 7, fill_stream(0, 0))}, {"b", host_values(buffers[1], 7, fill_stream(1, 0))}};
}

}  // namespace

TEST_CASE("tensor_ceiling's sums are exact in fp32 at any depth, with operands that use a type's bits") {
  for (const char* dtype : {"bf16", "f16"}) {
    const Problem deepest = problem_of(std::string("tiles=4,depth=8192,dtype=") + dtype);
    const HostTensors inputs = inputs_of(deepest);
    double largest = 0;
    for (const double value : inputs.at("b")) largest = std::max(largest, std::abs(std::nearbyint(value)));
    CHECK(largest == 31);
    const HostTensors outputs = answer_on_cpu(deepest, inputs);
    for (const double sum : outputs.at("sums")) {
      REQUIRE(std::abs(sum) < 1 << 24);
      REQUIRE(sum == std::nearbyint(sum));
    }
  }
}

TEST_CASE("tensor_ceiling's operands of e4m3 are random integers from -2 to 2") {
  const Problem deepest = problem_of("tiles=4,depth=8192,dtype=e4m3");
  const HostTensors inputs = inputs_of(deepest);
  double counts[5] = {};
  for (const double value : inputs.at("b")) ++counts[static_cast<int>(std::nearbyint(value)) + 2];
  for (const double count : counts) CHECK(count > 5000);  // of 32768
  const std::vector<double> sums = answer_on_cpu(deepest, inputs).at("sums");
  REQUIRE(sums.size() == 4 * 256);
  for (const double sum : sums) {
    REQUIRE(std::abs(sum) < 1 << 24);
    REQUIRE(sum == std::nearbyint(sum));
  }
  // Even and odd tiles have other rows.
  CHECK(std::equal(sums.begin(), sums.begin() + 256, sums.begin() + 512));
  CHECK_FALSE(std::equal(sums.begin(), sums.begin() + 256, sums.begin() + 256));
}

TEST_CASE("tensor_ceiling on the CPU: a written sum is a row of `a` times 64 columns, as often as K repeats") {
  const Problem problem = problem_of("tiles=2,depth=384");
  const HostTensors inputs = inputs_of(problem);
  const std::vector<double> sums = answer_on_cpu(problem, inputs).at("sums");
  double expected = 0;  // row 5 of the odd tile over the columns from 128 to 191
  for (std::size_t k = 0; k < 128; ++k) {
    double column_sum = 0;
    for (std::size_t column = 128; column < 192; ++column)
      column_sum += std::nearbyint(inputs.at("b")[column * 128 + k]);
    expected += std::nearbyint(inputs.at("a")[(64 + 5) * 128 + k]) * column_sum;
  }
  CHECK(sums[256 + 2 * 64 + 5] == 3 * expected);
}

TEST_CASE("tensor_ceiling's cost is FLOPs of its type") {
  for (const auto& [dtype, member] :
       {std::pair("bf16", &Flops::bf16), std::pair("f16", &Flops::fp16), std::pair("e4m3", &Flops::e4m3)}) {
    const Cost cost = kernel().cost(problem_of("tiles=10,depth=512,dtype=" + std::string(dtype)));
    CHECK(cost.flops.*member == 2.0 * 10 * 64 * 256 * 512);
    CHECK(cost.flops.bf16 + cost.flops.fp16 + cost.flops.e4m3 + cost.flops.fp32 == cost.flops.*member);
    CHECK(cost.written_bytes == 10 * 256 * 4);
  }
}

TEST_CASE("tensor_ceiling refuses a depth that its operands do not repeat into") {
  CHECK_THROWS_WITH_AS(kernel().check(problem_of("depth=200")), "tensor_ceiling: depth must be a multiple of 128",
                       BadInput);
}

TEST_CASE("tensor_ceiling takes wgmma where there is one, and every plan fits and covers the tiles") {
  for (const char* architecture : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_120a"}) {
    CAPTURE(architecture);
    const DeviceLimits limits = limits_of_architecture(architecture);
    for (const char* text : {"", "dtype=e4m3", "tiles=1,depth=128"}) {
      const Problem problem = problem_of(text);
      const LegalSpace legal = legal_space(problem, limits);
      REQUIRE_FALSE(legal.empty());
      bool wgmma = false;
      for (ConfigId id = 0; id < legal.size(); ++id) {
        const Config config = legal.config(id);
        wgmma = wgmma || config.number("WGMMA") == 1;
        const Plan plan = kernel().plan(config, problem, limits);
        REQUIRE(plan.launches.size() == 1);
        const Launch& launch = plan.launches[0];
        CHECK(launch.dynamic_shared <= limits.shared_per_block);
        CHECK(launch.block[0] == 128 * config.number("GROUPS"));
        CHECK(launch.grid[0] >= 1);
        CHECK(launch.grid[0] <= limits.sm_count * config.number("BLOCKS_PER_SM"));
        CHECK((launch.grid[0] - 1) * config.number("GROUPS") < problem["tiles"]);
      }
      CHECK(wgmma == (limits.compute_capability == 90));
    }
  }
}

}  // namespace moetune::tensor_ceiling_test
