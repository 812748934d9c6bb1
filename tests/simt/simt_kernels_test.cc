// Real templates on the CPU, against the answers in float64.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/resources.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/kernels/answers/answers.h"
#include "tests/simt/simt_tensors.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

Problem problem_of(const Kernel& kernel, const std::string& text) { return kernel.parse(text); }

// The largest difference, relative to a value's size or to 1.
double largest_error(const HostTensors& got, const HostTensors& right) {
  double largest = 0;
  REQUIRE(got.size() == right.size());
  for (const auto& [name, values] : right) {
    const std::vector<double>& mine = got.at(name);
    REQUIRE(mine.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double error = std::abs(mine[i] - values[i]) / std::max(1.0, std::abs(values[i]));
      if (!(error <= largest)) largest = std::isnan(error) ? HUGE_VAL : error;
    }
  }
  return largest;
}

double error_of_plan(const Kernel& kernel, const Problem& problem, const Plan& plan, std::uint64_t seed, bool exact) {
  SimtDevice device(plan.unit, {.seed = seed});
  SimtTensors tensors(kernel.buffers(problem, 1), 1, exact);
  tensors.run(device, plan);
  return largest_error(tensors.outputs(), answer_on_cpu(problem, tensors.inputs()));
}

double error_of_reference(const Kernel& kernel, const std::string& text) {
  const Problem problem = problem_of(kernel, text);
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  return error_of_plan(kernel, problem,
                       kernel.reference(Reference::exact, problem, kernel.default_call(problem), limits), 0, true);
}

// Some configurations of the space that `wanted` takes, spread over it.
template <typename Wanted>
std::vector<Config> sample(const Kernel& kernel, const Problem& problem, std::size_t count, Wanted&& wanted) {
  const std::string file = "spaces/" + kernel.name() + ".json";
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  const LegalSpace legal = Space::parse(read_resource(file), file).enumerate(expression_environment(problem, limits));
  std::vector<Config> all, chosen;
  for (ConfigId id = 0; id < legal.size(); ++id) {
    if (wanted(legal.config(id))) all.push_back(legal.config(id));
  }
  REQUIRE(all.size() >= count);
  for (std::size_t i = 0; i < count; ++i) chosen.push_back(all[(2 * i + 1) * all.size() / (2 * count)]);
  return chosen;
}

}  // namespace

TEST_CASE("simt: decode_kernel's exact reference, in each of its modes") {
  const Kernel& kernel = find_kernel("decode_kernel");
  for (const char* problem : {"elements=2500,write=all", "elements=2500,write=none,dtype=bf16",
                              "elements=2100,write=eighth,dtype=f16", "elements=2100,write=eightfold"}) {
    CAPTURE(problem);
    CHECK(error_of_reference(kernel, problem) < 1e-5);
  }
}

TEST_CASE("simt: decode_kernel by the vector loader") {
  const Kernel& kernel = find_kernel("decode_kernel");
  for (const char* text : {"elements=20500,write=all,dtype=f16", "elements=20500,write=none,dtype=bf16",
                           "elements=40100,write=eighth,dtype=f32", "elements=20100,write=eightfold,dtype=bf16"}) {
    CAPTURE(text);
    const Problem problem = problem_of(kernel, text);
    const auto is_vector = [](const Config& config) { return config.is("loader", "vector"); };
    for (const Config& config : sample(kernel, problem, 2, is_vector)) {
      const Plan plan = kernel.plan(config, problem, limits_of_architecture("sm_90a"));
      CHECK(error_of_plan(kernel, problem, plan, 1, false) < 0.01);
    }
  }
}

TEST_CASE("simt: decode_attention's exact reference") {
  const Kernel& kernel = find_kernel("decode_attention");
  for (const char* problem : {"batch=2,context=37,q_heads=4,kv_heads=2,lengths=ragged",
                              "batch=1,context=65,q_heads=4,kv_heads=2,window=20,sinks=learned,kv_dtype=e4m3"}) {
    CAPTURE(problem);
    CHECK(error_of_reference(kernel, problem) < 1e-4);
  }
}

TEST_CASE("simt: the eight largest of 256 for 64 tokens, by 8 blocks, under 20 schedules") {
  constexpr std::size_t kTokens = 64, kExperts = 256, kTop = 8;
  std::vector<std::uint8_t> scores(kTokens * kExperts * 4), chosen(kTokens * kTop * 4);
  std::uint32_t word = 1;
  for (std::size_t i = 0; i < kTokens * kExperts; ++i)
    store_integer(DType::i32, scores.data(), static_cast<std::int64_t>(i), (word = word * 1664525 + 1013904223) >> 8);
  LaunchPlan plan;
  Launch& launch = plan.launches.emplace_back();
  launch.entry = "top_experts";
  launch.grid[0] = 8;
  launch.block[0] = kExperts;
  launch.dynamic_shared = kExperts * 4;
  launch.arguments = {{"scores", Pointer{"scores"}},
                      {"chosen", Pointer{"chosen"}},
                      {"counts", Pointer{"counts"}},
                      {"arrived", Pointer{"arrived"}},
                      {"tokens", static_cast<std::int32_t>(kTokens)}};
  plan.scratch = {Scratch{"arrived", 4, true}};
  SimtDevice device({"tests/simt/kernels/top_experts.cu", {}});
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<std::uint8_t> counts(kExperts * 4);
    device.set_seed(seed);
    device.run(plan, {{"scores", std::as_const(scores)}, {"chosen", chosen}, {"counts", counts}});
    std::vector<std::int64_t> right_counts(kExperts);
    for (std::size_t token = 0; token < kTokens; ++token) {
      std::vector<std::pair<std::int64_t, std::int64_t>> order;
      for (std::size_t e = 0; e < kExperts; ++e)
        order.emplace_back(-load_integer(DType::i32, scores.data(), static_cast<std::int64_t>(token * kExperts + e)),
                           static_cast<std::int64_t>(e));
      std::partial_sort(order.begin(), order.begin() + kTop, order.end());
      for (std::size_t k = 0; k < kTop; ++k) {
        ++right_counts[static_cast<std::size_t>(order[k].second)];
        REQUIRE(load_integer(DType::i32, chosen.data(), static_cast<std::int64_t>(token * kTop + k)) ==
                order[k].second);
      }
    }
    for (std::size_t e = 0; e < kExperts; ++e)
      REQUIRE(load_integer(DType::i32, counts.data(), static_cast<std::int64_t>(e)) == right_counts[e]);
  }
}
