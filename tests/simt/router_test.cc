// The router's templates on the CPU: the reference against float64, and configurations spread over the space against
// the reference, every integer of every output.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kernel_space.h"
#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

SimtProblem routed_problem(const std::string& text) {
  SimtProblem routed("router", text, 5);  // several tokens a block, in few blocks
  routed.call.reals[0] = 2.5;
  return routed;
}

// Integers must be equal, weights within what the emulator's and the host's exponentials differ.
bool is_right(const std::string& output, double got, double right) {
  const double error = std::abs(got - right);
  return output == "weights" ? error <= 1e-5 * (1 + std::abs(right)) : error == 0;
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
    const SimtProblem routed = routed_problem(text);
    check_outputs(routed.reference(Reference::exact), routed.on_cpu(), is_right);
  }
}

TEST_CASE(
    "simt: router configurations write what the reference does, run after run, under several schedules") {
  if (no_simt()) return;
  for (const std::string& text : kProblems) {
    CAPTURE(text);
    const SimtProblem routed = routed_problem(text);
    const HostTensors right = routed.reference(Reference::exact);
    std::uint64_t schedule = 0;
    for (const Config& config : routed.sample(simt_sample(3), Rules::all)) {
      CAPTURE(config.text());
      check_outputs(routed.run(config, schedule++, 2), right, is_right);
    }
  }
}

TEST_CASE("simt: the router on NaN, infinities and equal logits, and with rows that lie apart") {
  if (no_simt()) return;
  SimtProblem routed = routed_problem("tokens=9,experts=64,top_k=8,align=8");
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
  const HostTensors right = routed.reference(Reference::exact);
  CHECK(std::vector<double>(right.at("ids").begin(), right.at("ids").begin() + 16) ==
        std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(right.at("ids")[16] == 63);
  CHECK(right.at("weights")[8] == 0);
  for (const Config& config : routed.sample(2 * simt_sample(3), Rules::all)) {
    CAPTURE(config.text());
    check_outputs(routed.run(config, 3), right, is_right);
  }
}

TEST_CASE("simt: blocks whose tokens need several chunks of bits, counted or not") {
  if (no_simt()) return;
  for (const char* const others : {"capacity=150", "count=device"}) {
    const SimtProblem routed =
        routed_problem(std::string("tokens=1400,experts=8,top_k=2,align=4,skew=zipf,") + others);
    const HostTensors right = routed.reference(Reference::exact);
    for (const char* const schedule : {"schedule=barrier,cluster=1", "schedule=cluster,cluster=4"}) {
      CAPTURE(schedule);
      const Config config = shared_space("router").parse_config(
          std::string(schedule) + ",select=rounds,lanes=8,vector=1,rows=1,warps=4,blocks_per_sm=1");
      check_outputs(routed.run(config, 5, 2), right, is_right);
    }
  }
}
