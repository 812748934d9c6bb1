#include <doctest/doctest.h>

#include <numeric>

#include "kernels/kernel.h"

using namespace moetune;

namespace moetune {
const Kernel& softmax();
}

namespace {

Problem softmax_problem(const std::string& text) {
  return parse_problem("softmax", softmax().schema(), nullptr, text);
}

Config softmax_config(int threads, int vector, int keep) {
  Config config;
  config.set("threads", Value::integer(threads));
  config.set("vector", Value::integer(vector));
  config.set("keep", Value::integer(keep));
  return config;
}

}  // namespace

TEST_CASE("softmax on the CPU: every row adds up to one, and larger inputs give larger outputs") {
  const Problem problem = softmax_problem("rows=3,columns=5");
  const std::vector<double> x = {0, 1, 2, 3, 4, -5, -5, -5, -5, -5, 1000, 0, 0, 0, 0};
  const std::vector<double> y = softmax().reference_on_cpu(problem, {{"x", x}}).at("y");
  for (std::size_t row = 0; row < 3; ++row) {
    const auto begin = y.begin() + static_cast<std::ptrdiff_t>(5 * row);
    CHECK(std::accumulate(begin, begin + 5, 0.0) == doctest::Approx(1));
  }
  CHECK(std::is_sorted(y.begin(), y.begin() + 5));
  CHECK(y[5] == doctest::Approx(0.2));
  CHECK(y[10] == doctest::Approx(1));
}

TEST_CASE("softmax launches a block a row, with shared memory for what it keeps") {
  const Problem problem = softmax_problem("rows=77,columns=1000");
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  const Plan kept = softmax().plan(softmax_config(128, 4, 1), problem, limits);
  REQUIRE(kept.launches.size() == 1);
  CHECK(kept.launches[0].grid[0] == 77);
  CHECK(kept.launches[0].block[0] == 128);
  CHECK(kept.launches[0].dynamic_shared == 4000);
  CHECK(softmax().plan(softmax_config(128, 4, 0), problem, limits).launches[0].dynamic_shared == 0);
}
