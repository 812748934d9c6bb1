#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "kernels/kernel.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"

namespace moetune::decode_kernel_test {

namespace {

const Kernel& kernel() { return find_kernel("decode_kernel"); }

Problem problem_of(const std::string& text) { return kernel().parse(text); }

LegalSpace legal_space(const Problem& problem, const DeviceLimits& limits) {
  return shared_space("decode_kernel").enumerate(expression_environment(problem, limits));
}

HostTensors inputs_of(const Problem& problem) {
  const Buffer x = kernel().buffers(problem, 7).front();
  return {{"x", host_values(x, 7, fill_stream(0, 0))}};
}

}  // namespace

TEST_CASE("decode_kernel on the CPU: y = a*x + b, and its sums over 1024 elements, the last chunk shorter") {
  const Problem all = problem_of("elements=2500,write=all"), none = problem_of("elements=2500,write=none");
  const HostTensors inputs = inputs_of(all);
  const std::vector<double> y = answer_on_cpu(all, inputs).at("y");
  const std::vector<double> sums = answer_on_cpu(none, inputs).at("sums");
  REQUIRE(y.size() == 2500);
  REQUIRE(sums.size() == 3);
  const std::vector<double>& x = inputs.at("x");
  const double slope = (y[1] - y[0]) / (x[1] - x[0]);
  CHECK(slope == doctest::Approx(0.7071));
  for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == doctest::Approx(slope * x[i] + 0.25));
  double rest = 0;
  for (std::size_t i = 2048; i < 2500; ++i) rest += y[i];
  CHECK(sums[2] == doctest::Approx(rest));
  CHECK(std::abs(sums[0]) > 100);  // all-zero output would be told from it
}

TEST_CASE("decode_kernel on the CPU: 128 sums a chunk, and eight versions of each chunk") {
  const Problem eighth = problem_of("elements=2100,write=eighth");
  const HostTensors inputs = inputs_of(eighth);
  const std::vector<double> y = answer_on_cpu(problem_of("elements=2100"), inputs).at("y");
  const std::vector<double> sums = answer_on_cpu(eighth, inputs).at("y");
  REQUIRE(sums.size() == 2 * 128 + 52);
  double sum = 0;
  for (std::size_t k = 0; k < 8; ++k) sum += y[1024 + 128 * k + 5];
  CHECK(sums[128 + 5] == doctest::Approx(sum));
  CHECK(sums[256 + 51] == doctest::Approx(y[2048 + 51]));

  const Problem eightfold = problem_of("elements=2100,write=eightfold");
  const std::vector<double> versions = answer_on_cpu(eightfold, inputs).at("y");
  REQUIRE(versions.size() == 8 * 2100);
  CHECK(versions[8 * 1024 + 3 * 1024 + 7] == doctest::Approx(y[1024 + 7] + 3 * 0.25));
  CHECK(versions[8 * 2048 + 7 * 52 + 1] == doctest::Approx(y[2048 + 1] + 7 * 0.25));
}

TEST_CASE("the streams have the mixes of reads and writes that they are named for") {
  const auto share = [](const std::string& write) {
    const Cost cost = kernel().cost(problem_of("elements=1048576,write=" + write));
    return cost.written_bytes / cost.bytes();
  };
  CHECK(share("none") < 0.001);
  CHECK(share("eighth") == doctest::Approx(1.0 / 9));
  CHECK(share("all") == doctest::Approx(1.0 / 2));
  CHECK(share("eightfold") == doctest::Approx(8.0 / 9));
}

TEST_CASE("several passes read an x that stays where it is") {
  const Problem once = problem_of("elements=8192,write=none"), warm = problem_of("elements=8192,write=none,passes=6");
  CHECK_FALSE(kernel().buffers(warm, 1)[0].rotates);
  CHECK(kernel().cost(once).inputs == Inputs::cold);
  CHECK(kernel().cost(warm).inputs == Inputs::warm);
  CHECK(kernel().cost(warm).bytes() == 6 * kernel().cost(once).bytes());
  CHECK(kernel().cost(warm).flops.fp32 == 6 * kernel().cost(once).flops.fp32);
  const HostTensors inputs = inputs_of(once);
  CHECK(answer_on_cpu(once, inputs) == answer_on_cpu(warm, inputs));
}

TEST_CASE("buffers and cost follow type and size") {
  const Problem bf16 = problem_of("elements=1025,dtype=bf16,write=none");
  const std::vector<Buffer> buffers = kernel().buffers(bf16, 1);
  REQUIRE(buffers.size() == 2);
  CHECK(buffers[0].dtype == DType::bf16);
  CHECK(buffers[0].rotates);
  CHECK(buffers[1].name == "sums");
  CHECK(buffers[1].elements == 2);
  CHECK(buffers[1].dtype == DType::f32);
  CHECK(kernel().cost(bf16).read_bytes == 1025 * 2);
  CHECK(kernel().cost(bf16).written_bytes == 2 * 4);
  CHECK(kernel().cost(problem_of("elements=1000")).bytes() == 8000);
  for (const char* write : {"eighth", "eightfold"}) {
    const Problem problem = problem_of("elements=1100,dtype=bf16,write=" + std::string(write));
    const std::vector<Buffer> both = kernel().buffers(problem, 1);
    CHECK(both[1].dtype == DType::bf16);
    CHECK(both[0].bytes() + both[1].bytes() == kernel().cost(problem).bytes());
  }
}

TEST_CASE("the space has every loader where the device has it, hundreds of configurations each") {
  for (const char* architecture : {"sm_80", "sm_89", "sm_90a", "sm_120a"}) {
    CAPTURE(architecture);
    const DeviceLimits limits = limits_of_architecture(architecture);
    const LegalSpace legal = legal_space(problem_of(""), limits);
    int by_loader[3] = {0, 0, 0};
    for (ConfigId id = 0; id < legal.size(); ++id) ++by_loader[legal.config(id).number("loader")];
    CHECK(by_loader[0] > 100);
    CHECK(by_loader[1] > 50);
    CHECK((by_loader[2] > 50) == (limits.compute_capability >= 90));
  }
  CHECK(legal_space(problem_of(""), limits_of_architecture("sm_90a")).size() > 500);
}

TEST_CASE("every legal configuration has a plan that fits and covers x, whatever its size") {
  for (const char* text : {"elements=1", "elements=1000003,dtype=bf16", "elements=268435456,write=none",
                           "elements=1000000,write=none,passes=9"}) {
    const Problem problem = problem_of(text);
    const DeviceLimits limits = limits_of_architecture("sm_90a");
    const LegalSpace legal = legal_space(problem, limits);
    for (ConfigId id = 0; id < legal.size(); ++id) {
      const Config config = legal.config(id);
      const Plan plan = kernel().plan(config, problem, limits);
      REQUIRE(plan.launches.size() == 1);
      const Launch& launch = plan.launches.front();
      const std::int64_t tiles =
          problem["passes"] * (kernel().buffers(problem, 1)[0].bytes() / (1024 * config.number("tile_kib")));
      const std::int64_t resident = config.number("blocks_per_sm") * limits.sm_count;
      CHECK(launch.grid[0] == std::max<std::int64_t>(1, resident == 0 ? tiles : std::min(tiles, resident)));
      CHECK(launch.block[0] == 32 * (config.number("warps") + config.number("producers")));
      CHECK(launch.block[0] <= 1024);
      CHECK(launch.dynamic_shared <= limits.shared_per_block);
      CHECK((launch.dynamic_shared == 0) == config.is("loader", "vector"));
    }
  }
}

TEST_CASE("the default of an architecture is its best-known shape of streaming") {
  const auto default_for = [](const char* architecture) {
    return shared_space("decode_kernel")
        .default_config(expression_environment(problem_of(""), limits_of_architecture(architecture)));
  };
  REQUIRE(default_for("sm_90a"));
  CHECK(default_for("sm_90a")->is("loader", "bulk"));
  REQUIRE(default_for("sm_80"));
  CHECK(default_for("sm_80")->is("loader", "vector"));
  REQUIRE(default_for("sm_120a"));
}

TEST_CASE("problems of one family have places of their own in a table") {
  const Kernel& kernel = find_kernel("decode_kernel");
  const auto problem_of = [&](const std::string& text) { return kernel.parse(text); };
  const Problem opened = problem_of("elements=4096");
  const std::unique_ptr<const FamilyInterface> family = kernel.family_interface(opened);
  for (const std::int64_t elements : {1024, 4096, 1 << 20}) {
    const TablePoint point = family->table_point_of(problem_of("elements=" + std::to_string(elements)));
    REQUIRE(point.position.size() == 1);
    CHECK(point.position[0] == elements);
  }
}

}  // namespace moetune::decode_kernel_test
