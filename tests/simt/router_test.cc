// The router's templates on the CPU: the reference against float64, and configurations spread over the space against
// the reference, every integer of every output.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>

#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/simt/simt_tensors.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// Configurations of each problem; MOETUNE_SIMT_SAMPLE takes more than CI has time for.
std::size_t sample_size() {
  const char* const text = std::getenv("MOETUNE_SIMT_SAMPLE");
  return text != nullptr ? static_cast<std::size_t>(std::atoi(text)) : 3;
}

DeviceLimits small_gpu() {
  DeviceLimits limits = limits_of_architecture("sm_90a");
  limits.sm_count = 5;  // several tokens a block, in few blocks
  return limits;
}

struct Routed {
  explicit Routed(const std::string& text)
      : kernel(find_kernel("router")), problem(parse_problem("router", kernel.schema(), nullptr, text)) {
    kernel.check(problem);
    call = kernel.default_call(problem);
    call.reals[0] = 2.5;
  }

  HostTensors run(const Plan& plan, std::uint64_t schedule, int times) {
    SimtDevice device(plan.unit, {.seed = schedule});
    SimtTensors tensors(kernel.buffers(problem, call, kSeed), kSeed);
    if (edit) edit(tensors);
    for (int i = 0; i < times; ++i) tensors.run(device, plan);
    return tensors.outputs();
  }

  HostTensors reference() { return run(kernel.reference(Reference::exact, problem, call, limits), 0, 1); }
  HostTensors on_cpu() {
    SimtTensors tensors(kernel.buffers(problem, call, kSeed), kSeed);
    return kernel.reference_on_cpu(problem, call, tensors.inputs());
  }

  static constexpr std::uint64_t kSeed = 11;
  const Kernel& kernel;
  Problem problem;
  Call call;
  DeviceLimits limits = small_gpu();
  std::function<void(SimtTensors&)> edit;
};

// Integers must be equal, weights within what the emulator's and the host's exponentials differ.
void check_equal(const HostTensors& got, const HostTensors& right) {
  REQUIRE(got.size() == right.size());
  for (const auto& [name, values] : right) {
    CAPTURE(name);
    const std::vector<double>& mine = got.at(name);
    REQUIRE(mine.size() == values.size());
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = values.size(); i-- > 0;) {
      const double error = std::abs(mine[i] - values[i]);
      if (name == "weights" ? error <= 1e-5 * (1 + std::abs(values[i])) : error == 0) continue;
      ++wrong;
      first = i;
    }
    CAPTURE(first);
    CAPTURE(mine[first]);
    CAPTURE(values[first]);
    CHECK(wrong == 0);
  }
}

// Spread over the legal configurations, and with them over schedules, selections and lanes.
std::vector<Config> sample(const Routed& routed, std::size_t count) {
  const Space& space = shared_space("router");
  const LegalSpace legal = space.enumerate(expression_environment(routed.problem, routed.limits));
  REQUIRE(legal.size() >= count);
  std::vector<Config> chosen;
  const std::uint64_t step = 0x9E3779B97F4A7C15u;
  for (std::size_t i = 0; i < count; ++i) chosen.push_back(legal.config((i + 1) * step % legal.size()));
  return chosen;
}

const std::vector<std::string> kProblems = {
    "tokens=37,experts=256,top_k=8,align=16",
    "tokens=1,experts=8,top_k=2,dtype=bf16,align=1",
    "tokens=70,experts=128,top_k=8,dtype=bf16,align=128,skew=zipf",
    "tokens=33,experts=32,top_k=4,score=topk_softmax,dtype=bf16",
    "tokens=40,experts=256,top_k=8,score=sigmoid,bias=correction,groups=8,groups_kept=4",
    "tokens=21,experts=384,top_k=8,score=sigmoid,bias=correction,align=64",
    "tokens=50,experts=60,top_k=4,renormalize=no,dtype=fp16,align=8",
    "tokens=64,experts=72,top_k=6,score=sqrt_softplus,bias=correction,skew=zipf",
    "tokens=90,experts=32,top_k=2,capacity=125,skew=one,align=4",
    "tokens=19,experts=16,top_k=16,align=2",
    "tokens=45,experts=512,top_k=10,score=softmax,bias=correction,groups=16,groups_kept=3,renormalize=no",
    "tokens=57,experts=128,top_k=8,outputs=weights",
    "tokens=61,experts=64,top_k=6,align=32,map=local,count=device",
    "tokens=30,experts=16,top_k=2,outputs=weights,count=device",
};

}  // namespace

TEST_CASE("simt: the router's reference agrees with float64") {
  if (no_simt()) return;
  for (const std::string& text : kProblems) {
    CAPTURE(text);
    Routed routed(text);
    check_equal(routed.reference(), routed.on_cpu());
  }
}

TEST_CASE(
    "simt: router configurations write what the reference does, run after run, under several schedules") {
  if (no_simt()) return;
  for (const std::string& text : kProblems) {
    CAPTURE(text);
    Routed routed(text);
    const HostTensors right = routed.reference();
    std::uint64_t schedule = 0;
    for (const Config& config : sample(routed, sample_size())) {
      CAPTURE(config.text());
      const Plan plan = routed.kernel.plan(config, routed.problem, routed.call, routed.limits);
      check_equal(routed.run(plan, schedule++, 2), right);
    }
  }
}

TEST_CASE("simt: the router on NaN, infinities and equal logits, and with rows that lie apart") {
  if (no_simt()) return;
  Routed routed("tokens=9,experts=64,top_k=8,align=8");
  routed.call.integers[0] = 80;
  routed.edit = [](SimtTensors& tensors) {
    auto* const logits = reinterpret_cast<float*>(tensors.bytes("logits").data());
    const float inf = std::numeric_limits<float>::infinity();
    std::fill_n(logits, 64, 1.0f);
    std::fill_n(logits + 80, 64, std::nanf(""));
    std::fill_n(logits + 160, 64, -inf);
    logits[160 + 63] = inf;
    logits[240 + 5] = logits[240 + 9] = inf;
    logits[320 + 3] = std::nanf("");
  };
  const HostTensors right = routed.reference();
  CHECK(std::vector<double>(right.at("ids").begin(), right.at("ids").begin() + 16) ==
        std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(right.at("ids")[16] == 63);
  CHECK(right.at("weights")[8] == 0);
  for (const Config& config : sample(routed, 2 * sample_size())) {
    CAPTURE(config.text());
    check_equal(routed.run(routed.kernel.plan(config, routed.problem, routed.call, routed.limits), 3, 1),
                right);
  }
}

TEST_CASE("simt: blocks whose tokens need several chunks of bits, counted or not") {
  if (no_simt()) return;
  for (const char* const others : {"capacity=150", "count=device"}) {
    Routed routed(std::string("tokens=1400,experts=8,top_k=2,align=4,skew=zipf,") + others);
    const HostTensors right = routed.reference();
    for (const char* const schedule : {"schedule=barrier,cluster=1", "schedule=cluster,cluster=4"}) {
      CAPTURE(schedule);
      const Config config = shared_space("router").parse_config(
          std::string(schedule) + ",select=rounds,lanes=8,vector=1,rows=1,warps=4,blocks_per_sm=1");
      check_equal(routed.run(routed.kernel.plan(config, routed.problem, routed.call, routed.limits), 5, 2),
                  right);
    }
  }
}
