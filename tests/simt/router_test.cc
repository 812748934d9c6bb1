// The router's templates on the CPU: the reference against float64, and configurations spread over the space against
// the reference, every integer of every output.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/kernels/answers/answers.h"
#include "tests/simt/routed_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

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
    "tokens=9,experts=509,top_k=16,align=1",
    "tokens=9,experts=1024,top_k=32,score=sigmoid,bias=correction,align=8",
    "tokens=6,experts=896,top_k=22,renormalize=no,layout=ends",
    "tokens=33,experts=64,top_k=6,align=8,layout=rows,capacity=110,dropped=mask,skew=zipf",
    "tokens=70,experts=32,top_k=4,layout=ends",
    "tokens=41,experts=40,top_k=3,layout=masked,segment=5,dropped=mask,ids=i64,skew=zipf",
    "tokens=55,experts=64,top_k=6,layout=masked,segment=9,map=local,count=device,dropped=mask",
    "tokens=77,experts=96,top_k=5,outputs=ranks,ranks=8,ids=i64",
    "tokens=5,experts=8,top_k=8,outputs=ranks,ranks=8,count=device",
    "tokens=60,experts=512,top_k=3,outputs=ranks,ranks=512,skew=one",
    "tokens=29,experts=33,top_k=3,outputs=weights,ids=i64",
};

}  // namespace

TEST_CASE("simt: the router's reference agrees with float64") {
  for (const std::string& text : kProblems) {
    CAPTURE(text);
    const SimtProblem routed = routed_problem(text);
    const HostTensors got = routed.reference(Reference::exact);
    const HostTensors right = route_on_cpu_as(RouterShape(routed.problem), routed.call.integers[0],
                                              routed.call.reals[0], routed.tensors().inputs(), got.at("ids"));
    check_outputs(got, right, is_right_routing);
  }
}

TEST_CASE("simt: router configurations write what the reference does, run after run, under several schedules") {
  for (const std::string& text : kProblems) {
    CAPTURE(text);
    const SimtProblem routed = routed_problem(text);
    const HostTensors right = routed.reference(Reference::exact);
    std::uint64_t schedule = 0;
    for (const Config& config : routed.sample(simt_sample(2), Rules::all)) {
      CAPTURE(config.text());
      check_outputs(routed.run(config, schedule++, 2), right, is_right_routing);
    }
  }
}

TEST_CASE("simt: the router on NaN, infinities and equal logits, and with rows that lie apart") {
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
    check_outputs(routed.run(config, 3), right, is_right_routing);
  }
}

TEST_CASE("simt: odd logits and biases count the same in float64, in the reference and in the kernel") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf(""), odd[] = {nan, inf, -inf, 3e38f};
  for (const char* const others :
       {"score=softmax,renormalize=no", "score=topk_softmax", "score=sigmoid,bias=correction,groups=8,groups_kept=2",
        "score=sqrt_softplus,bias=correction", "score=softmax,bias=correction,groups=4,groups_kept=3"}) {
    CAPTURE(others);
    SimtProblem routed = routed_problem(std::string("tokens=14,experts=40,top_k=5,align=1,") + others);
    routed.edit = [&](SimtTensors& tensors) {
      auto* const logits = reinterpret_cast<float*>(tensors.bytes("logits").data());
      for (std::size_t i = 0; i < 10 * 40; ++i) {  // ever more of them, then rows of one kind
        if (i / 40 > i * i % 11) logits[i] = odd[i % 4];
      }
      for (std::size_t i = 10 * 40; i < 14 * 40; ++i) logits[i] = odd[i / 40 % 4];
      if (!routed.problem.is("bias", "correction")) return;
      auto* const bias = reinterpret_cast<float*>(tensors.bytes("bias").data());
      std::copy(std::begin(odd), std::begin(odd) + 3, bias + 7);
    };
    SimtTensors tensors = routed.tensors();
    HostTensors inputs;
    for (const auto& [name, ignored] : tensors.inputs()) inputs[name] = widened(DType::f32, tensors.bytes(name));
    const HostTensors right = routed.reference(Reference::exact);
    check_outputs(right, answer_on_cpu(routed.problem, routed.call, inputs), is_right_routing);
    for (const Config& config : routed.sample(simt_sample(3), Rules::all)) {
      CAPTURE(config.text());
      check_outputs(routed.run(config, 9), right, is_right_routing);
    }
  }
}

TEST_CASE("simt: the device's number of tokens may be none, all, or no number of tokens") {
  for (const char* const others :
       {"layout=rows", "outputs=weights", "outputs=ranks,ranks=4", "layout=masked,segment=9"}) {
    for (const std::int32_t count : {0, 1, 40, 41, 1 << 30, -1, -(1 << 30)}) {
      CAPTURE(others);
      CAPTURE(count);
      SimtProblem routed = routed_problem(std::string("tokens=40,experts=32,top_k=3,align=8,count=device,") + others);
      routed.edit = [count](SimtTensors& tensors) {
        std::memcpy(tensors.bytes("token_count").data(), &count, sizeof count);
      };
      const HostTensors right = routed.reference(Reference::exact);
      const std::vector<double>& ids = right.at("ids");
      const auto live = static_cast<std::ptrdiff_t>(3 * std::clamp(count, 0, 40));
      CHECK(std::count(ids.begin(), ids.end(), -1) == std::ssize(ids) - live);
      CHECK(std::none_of(ids.begin(), ids.begin() + live, [](double id) { return id < 0; }));
      for (const Config& config : routed.sample(simt_sample(2), Rules::all)) {
        CAPTURE(config.text());
        check_outputs(routed.run(config, 1, 2), right, is_right_routing);
      }
    }
  }
}

TEST_CASE("simt: blocks whose tokens need several chunks of bits, counted or not") {
  for (const char* const others : {"capacity=150", "count=device"}) {
    const SimtProblem routed = routed_problem(std::string("tokens=1400,experts=8,top_k=2,align=4,skew=zipf,") + others);
    const HostTensors right = routed.reference(Reference::exact);
    for (const char* const schedule :
         {"schedule=barrier,cluster=1", "schedule=cluster,cluster=4", "schedule=cluster,cluster=1"}) {
      CAPTURE(schedule);
      const Config config = shared_space("router").parse_config(std::string(schedule) +
                                                                ",select=rounds,lanes=8,vector=1,rows=1,warps=4,"
                                                                "dependents=early,pad=last,blocks_per_sm=1");
      check_outputs(routed.run(config, 5, 2), right, is_right_routing);
    }
  }
}

TEST_CASE("simt: clusters of every size send experts of every number, and let the next kernel start at any time") {
  // Two launches a number, in turn, as each is a program to compile.
  const char* const launches[] = {"cluster=1,dependents=early,lanes=8", "cluster=2,dependents=loaded,lanes=32",
                                  "cluster=8,dependents=selected,lanes=16", "cluster=16,dependents=early,lanes=8"};
  std::size_t turn = 0;
  for (const char* const top_k : {"1", "2", "3", "6", "8", "10", "16"}) {
    CAPTURE(top_k);
    const SimtProblem routed = routed_problem(
        std::string("tokens=45,experts=40,align=8,skew=zipf,count=device,ids=i64,layout=rows,top_k=") + top_k);
    const HostTensors right = routed.reference(Reference::exact);
    for (const std::size_t i : {turn, turn + 2}) {
      const char* const launch = launches[i % std::size(launches)];
      CAPTURE(launch);
      const Config config = shared_space("router").parse_config(
          std::string("schedule=cluster,select=rounds,vector=1,rows=1,warps=2,pad=last,blocks_per_sm=1,") + launch);
      check_outputs(routed.run(config, 6, 2), right, is_right_routing);
    }
    ++turn;
  }
}

TEST_CASE("simt: blocks that wait for each other need not run at the same time") {
  for (const char* const others : {"tokens=90,experts=32,top_k=2,capacity=125,dropped=mask,layout=rows",
                                   "tokens=1300,experts=8,top_k=2,align=4,count=device"}) {
    CAPTURE(others);
    SimtProblem routed = routed_problem(others);
    const HostTensors right = routed.reference(Reference::exact);
    const Config config = shared_space("router").parse_config(
        "schedule=barrier,cluster=1,select=rounds,lanes=8,vector=1,rows=1,warps=4,dependents=early,pad=last,"
        "blocks_per_sm=1");
    for (const std::uint32_t resident : {1, 2, 4}) {
      CAPTURE(resident);
      routed.resident_blocks = resident;
      check_outputs(routed.run(config, resident, 2), right, is_right_routing);
    }
  }
}

TEST_CASE("simt: the router's defaults write what the reference does, for few tokens and many") {
  for (const char* const model : {"experts=8,top_k=2,dtype=bf16", "experts=32,top_k=4,score=topk_softmax",
                                  "experts=128,top_k=8", "experts=40,top_k=3"}) {
    for (const char* const tokens : {"tokens=5,", "tokens=70,", "tokens=300,"}) {
      const SimtProblem routed = routed_problem(std::string(tokens) + model);
      DeviceLimits limits = routed.limits;
      limits.sm_count = 17;  // enough for a barrier
      const auto usual = shared_space("router").default_config(expression_environment(routed.problem, limits));
      CAPTURE(usual.value().text());
      check_outputs(routed.run(*usual, 4, 2), routed.reference(Reference::exact), is_right_routing);
    }
  }
}

TEST_CASE("simt: a selection score of NaN takes no part in what its group counts") {
  SimtProblem routed =
      routed_problem("tokens=3,experts=32,top_k=2,score=sigmoid,bias=correction,groups=4,groups_kept=1,align=1");
  routed.edit = [](SimtTensors& tensors) {
    auto* const logits = reinterpret_cast<float*>(tensors.bytes("logits").data());
    auto* const bias = reinterpret_cast<float*>(tensors.bytes("bias").data());
    std::fill_n(logits, 3 * 32, -9.0f);
    std::fill_n(bias, 32, 0.0f);
    for (std::size_t t = 0; t < 3; ++t) {
      logits[t * 32 + 8] = 2;  // the best of all, and NaN beside it
      logits[t * 32 + 16] = logits[t * 32 + 17] = 1;
    }
    bias[9] = std::nanf("");
  };
  const std::vector<double> ids = {16, 17, 16, 17, 16, 17};
  CHECK(routed.reference(Reference::exact).at("ids") == ids);
  for (const Config& config : routed.sample(2 * simt_sample(3), Rules::all)) {
    CAPTURE(config.text());
    CHECK(routed.run(config, 3).at("ids") == ids);
  }
}
