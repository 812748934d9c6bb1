// moe_dispatch's templates on the CPU: the reference against float64, and configurations spread over the space against
// the reference, every element of every output.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/kernel_space.h"
#include "kernels/moe/moe_dispatch_problem.h"
#include "tests/kernels/answers/answers.h"
#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

SimtProblem dispatched(const std::string& text) {
  return {"moe_dispatch", text, 3};  // several rows a team
}

// bf16 values in place of the problem's.
void set_x(SimtProblem& one, std::vector<std::uint16_t> x) {
  one.edit = [x = std::move(x)](SimtTensors& tensors) {
    std::memcpy(tensors.bytes("x").data(), x.data(), x.size() * sizeof x[0]);
  };
}

const std::vector<std::string> kDispatchProblems = {
    "tokens=7,hidden=264,experts=8,top_k=2,align=4",
    "tokens=1,hidden=8,experts=8,top_k=1,align=1",
    "tokens=9,hidden=2880,experts=16,top_k=4,align=8,padding=none",
    "tokens=5,hidden=1032,experts=8,top_k=3,align=2,out=e4m3",
    "tokens=13,hidden=320,experts=16,top_k=4,align=1,out=e4m3,scale_layout=column,skew=zipf",
    "tokens=6,hidden=2056,experts=8,top_k=2,align=2,out=e4m3,scale=token",
    "tokens=11,hidden=136,experts=32,top_k=5,align=1,out=e4m3,scale=token,scale_layout=column,capacity=90",
    "tokens=12,hidden=512,experts=8,top_k=2,out=e4m3,scale_layout=column,padding=none,skew=one,capacity=150,align=16",
    "tokens=3,hidden=712,experts=8,top_k=8,align=4,out=e4m3,scale=token,padding=none",
    "tokens=4,hidden=264,experts=1024,top_k=32,align=1",
    "tokens=3,hidden=256,experts=896,top_k=22,align=2,out=e4m3",
};

}  // namespace

TEST_CASE("simt: moe_dispatch's references agree with float64") {
  for (const std::string& text : kDispatchProblems) {
    CAPTURE(text);
    const SimtProblem one = dispatched(text);
    const HostTensors right = one.on_cpu();
    check_outputs(one.reference(Reference::exact), right);
    check_outputs(one.reference(Reference::baseline), right);
  }
}

TEST_CASE("simt: moe_dispatch configurations write what the reference does, under several schedules") {
  std::uint64_t schedule = 0;
  for (const std::string& text : kDispatchProblems) {
    CAPTURE(text);
    const SimtProblem one = dispatched(text);
    const HostTensors right = one.reference(Reference::exact);
    for (const Config& config : one.sample(simt_sample(3), Rules::must)) {
      CAPTURE(config.text());
      check_outputs(one.run(config, schedule++), right);
    }
  }
}

TEST_CASE("simt: moe_dispatch with rows that lie apart, and with more and fewer places than the routing needs") {
  SimtProblem one = dispatched("tokens=10,hidden=264,experts=8,top_k=2,align=4,out=e4m3,scale_layout=column");
  one.call.integers[kMoeRow] = 304;
  for (const std::int64_t places : {6, 47, 131}) {
    CAPTURE(places);
    one.call.integers[kMoePlaces] = places;
    const HostTensors right = one.on_cpu();
    check_outputs(one.reference(Reference::exact), right);
    for (const Config& config : one.sample(simt_sample(3), Rules::must)) {
      CAPTURE(config.text());
      check_outputs(one.run(config, 5), right);
    }
  }
}

TEST_CASE("simt: a block of moe_dispatch that takes many rows keeps their scales apart") {
  const SimtProblem one = dispatched("tokens=24,hidden=1032,experts=8,top_k=2,align=1,out=e4m3,scale=token");
  const HostTensors right = one.reference(Reference::exact);
  const Config config = shared_space("moe_dispatch")
                            .parse_config(
                                "by=token,team=block,warps=4,splits=1,vector=16,flight=1,keep=1,"
                                "ahead=0,stores=keep,blocks_per_sm=1",
                                nullptr);
  for (std::uint64_t schedule = 1; schedule <= 8; ++schedule) {
    CAPTURE(schedule);
    check_outputs(one.run(config, schedule), right);
  }
}

TEST_CASE("simt: moe_dispatch rounds every bf16 to the nearest e4m3, ties to even") {
  // All finite magnitudes up to 448, in groups whose largest value is 448, so that scales are 1.
  SimtProblem one = dispatched("tokens=135,hidden=1024,experts=8,top_k=1,align=1,out=e4m3");
  std::vector<std::uint16_t> x;
  std::uint16_t next = 0;
  for (std::size_t i = 0; i < 135 * 1024; ++i)
    x.push_back(i % 128 == 0 ? 0x43e0 : static_cast<std::uint16_t>(i % 2 << 15 | (next += i % 2) % 0x43e1));
  set_x(one, x);
  const HostTensors out = one.reference(Reference::baseline);
  const SimtTensors tensors = one.tensors();
  std::size_t wrong = 0, seen = 0;
  for (std::size_t slot = 0; slot < 135; ++slot) {
    const auto place = static_cast<std::size_t>(tensors.inputs().at("inverse")[slot]);
    for (std::size_t c = 0; c < 1024; ++c, ++seen) {
      const double value = load_element(DType::bf16, &x[slot * 1024 + c], 0);
      wrong += out.at("rows")[place * 1024 + c] != round_to(DType::e4m3, value);
    }
  }
  CHECK(seen > 2 * 0x43e0);
  CHECK(wrong == 0);
}

TEST_CASE("simt: NaN stays NaN in moe_dispatch's e4m3, and leaves the other values of its group alone") {
  SimtProblem one = dispatched("tokens=1,hidden=256,experts=8,top_k=1,align=1,out=e4m3");
  std::vector<std::uint16_t> x(256, 0x3f80);  // 1
  x[3] = 0x7fc0;
  x[200] = 0xffc1;
  set_x(one, x);
  for (const Config& config : one.sample(2 * simt_sample(3), Rules::must)) {
    CAPTURE(config.text());
    const HostTensors out = one.run(config, 2);
    for (std::size_t i = 0; i < 256; ++i) CHECK(std::isnan(out.at("rows")[i]) == (i == 3 || i == 200));
    CHECK(out.at("scales") == std::vector<double>(2, static_cast<double>(1.0f / 448)));
    CHECK(out.at("rows")[4] == 448);
  }
}

TEST_CASE("simt: moe_dispatch brings rows into equal segments, some of them full and slots dropped") {
  const RoutingSizes sizes{.tokens = 21, .experts = 8, .top_k = 3, .segment = 6};
  const RoutingPlan plan = plan_routing(sizes, draw_experts(sizes, "zipf", 3));
  CHECK(std::count(plan.inverse.begin(), plan.inverse.end(), -1) > 0);
  for (const char* const others : {"", ",out=e4m3,scale_layout=column"}) {
    CAPTURE(others);
    SimtProblem one = dispatched(std::string("tokens=21,hidden=136,experts=8,top_k=3") + others);
    one.call.integers[kMoePlaces] = sizes.places();
    one.edit = [&](SimtTensors& tensors) {
      std::memcpy(tensors.bytes("sorted").data(), plan.sorted.data(), 4 * plan.sorted.size());
      std::memcpy(tensors.bytes("inverse").data(), plan.inverse.data(), 4 * plan.inverse.size());
    };
    HostTensors inputs = one.tensors().inputs();
    inputs["sorted"] = {plan.sorted.begin(), plan.sorted.end()};
    inputs["inverse"] = {plan.inverse.begin(), plan.inverse.end()};
    const HostTensors right = answer_on_cpu(one.problem, one.call, inputs);
    check_outputs(one.reference(Reference::exact), right);
    for (const Config& config : one.sample(2 * simt_sample(3), Rules::must)) {
      CAPTURE(config.text());
      check_outputs(one.run(config, 4), right);
    }
  }
}
