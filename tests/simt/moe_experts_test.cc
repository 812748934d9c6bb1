// moe_experts' templates on the CPU: the reference against float64, and configurations of the mma body spread over the
// space against the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/kernel_space.h"
#include "kernels/moe/moe_experts_problem.h"
#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// On an architecture whose body runs on the CPU.
SimtProblem multiplied(const std::string& text) {
  SimtProblem one("moe_experts", text, 3);
  one.limits = limits_of_architecture("sm_80");
  one.limits.sm_count = 3;  // several tiles a block
  return one;
}

// `error` of values that are around 0.3; NaN where nothing is written.
IsRight near(double error) {
  return [error](const std::string&, double got, double right) {
    return (std::isnan(got) && std::isnan(right)) || std::abs(got - right) <= error * (1 + std::abs(right));
  };
}

// Some configurations of small tiles: emulated products take as long for rows that do not exist.
std::vector<Config> small_tiles(const SimtProblem& one, std::size_t count) {
  std::vector<Config> chosen;
  for (const Config& config : one.sample(40 * count, Rules::must)) {
    if (config.number("rows") * config.number("down_columns") <= 4096 && config.number("up_columns") <= 64 &&
        chosen.size() < count)
      chosen.push_back(config);
  }
  REQUIRE(chosen.size() == count);
  return chosen;
}

void check_body(const SimtProblem& one, const Config& config, std::uint64_t schedule, const HostTensors& right,
                int times = 1) {
  CAPTURE(config.text());
  check_outputs(one.run(config, schedule, times), right, near(one.problem.is("dtype", "fp16") ? 0.003 : 0.02));
}

void check_bodies(const SimtProblem& one, std::size_t count) {
  const HostTensors right = one.reference(Reference::exact);
  std::uint64_t schedule = 0;
  for (const Config& config : small_tiles(one, simt_sample(count))) check_body(one, config, schedule++, right);
}

const std::vector<std::string> kExpertProblems = {
    "tokens=1,hidden=8,intermediate=8,experts=8,top_k=1,align=1",
    "tokens=1,hidden=192,intermediate=136,experts=16,top_k=4,align=1",
    "tokens=9,hidden=136,intermediate=88,experts=8,top_k=2,align=4,dtype=fp16",
    "tokens=40,hidden=64,intermediate=96,experts=8,top_k=3,align=16,skew=one,capacity=150",
    "tokens=33,hidden=320,intermediate=72,experts=33,top_k=2,align=1,skew=zipf",
    "tokens=5,hidden=64,intermediate=64,experts=200,top_k=6,align=2",
    "tokens=5,hidden=64,intermediate=72,experts=8,top_k=2,align=2,activation=swigluoai",
};
const std::string kNarrowExperts = "tokens=7,hidden=256,intermediate=256,experts=8,top_k=2,align=4,w=e4m3,skew=zipf";
const std::string kPackedExperts =
    "tokens=7,hidden=160,intermediate=96,experts=8,top_k=2,align=4,w=mxfp4,activation=swigluoai,skew=zipf";

// Each product alone, rows that were dispatched, and an output for each place.
const std::vector<std::string> kExpertParts = {"part=up,out=places", "part=up,x=places,out=places",
                                               "part=down,x=places", "part=down,x=places,out=places",
                                               "x=places",           "out=places",
                                               "x=places,out=places"};
const std::string kPartProblems[] = {
    "tokens=9,hidden=136,intermediate=88,experts=8,top_k=2,align=4,dtype=fp16,skew=zipf,",
    "tokens=7,hidden=72,intermediate=64,experts=8,top_k=2,align=16,capacity=90,activation=swigluoai,",
    "tokens=7,hidden=256,intermediate=128,experts=8,top_k=2,align=4,w=e4m3,",
    "tokens=7,hidden=160,intermediate=96,experts=8,top_k=2,align=4,w=mxfp4,activation=swigluoai,skew=zipf,"};

}  // namespace

TEST_CASE("simt: moe_experts' references agree with float64") {
  for (const std::string& text : kExpertProblems) {
    CAPTURE(text);
    const SimtProblem one = multiplied(text);
    const HostTensors right = one.on_cpu();
    check_outputs(one.reference(Reference::exact), right, near(1e-5));
    check_outputs(one.reference(Reference::baseline), right, near(one.problem.is("dtype", "fp16") ? 0.004 : 0.03));
  }
  for (const std::string& text : {kNarrowExperts, kPackedExperts}) {
    CAPTURE(text);
    const SimtProblem one = multiplied(text);
    const HostTensors right = one.on_cpu();
    check_outputs(one.reference(Reference::exact), right, near(1e-5));
    check_outputs(one.reference(Reference::baseline), right, near(0.06));
  }
}

TEST_CASE("simt: the mma body of moe_experts is right under several schedules") {
  for (const std::string& text : kExpertProblems) {
    CAPTURE(text);
    check_bodies(multiplied(text), 2);
  }
}

TEST_CASE("simt: parts of moe_experts by the references and the mma body") {
  for (const std::string& problem : kPartProblems) {
    // All kinds of the first problem, every second one of the others: each is two or three programs to compile.
    const bool is_first = problem == kPartProblems[0];
    for (std::size_t i = 0; i < kExpertParts.size(); i += is_first ? 1 : 2) {
      const std::string& part = kExpertParts[i];
      CAPTURE(problem + part);
      const SimtProblem one = multiplied(problem + part);
      const HostTensors right = one.on_cpu(), exact = one.reference(Reference::exact);
      check_outputs(exact, right, near(1e-5));
      if (is_first || i == 0) check_outputs(one.reference(Reference::baseline), right, near(0.1));
      const bool narrow = one.problem.is("w", "e4m3");
      const Config config =
          one.config(std::string("body=mma,rows=16,up_stages=2,down_stages=2,residents=1,launches=3,weights=keep,"
                                 "schedule=persistent,up_columns=128,down_columns=256,") +
                         (narrow ? "warps=4,depth=128" : "warps=8,depth=64"),
                     "");
      check_outputs(one.run(config, 3), exact, near(narrow ? 0.1 : 0.03));
    }
  }
}

TEST_CASE("simt: moe_experts' mma body by weights whose N is contiguous") {
  for (const std::string problem :
       {"tokens=1,hidden=8,intermediate=8,experts=8,top_k=1,align=1,layout=n_major",
        "tokens=9,hidden=136,intermediate=88,experts=8,top_k=2,align=4,dtype=fp16,layout=n_major",
        "tokens=33,hidden=72,intermediate=72,experts=33,top_k=2,align=1,layout=n_major,activation=swigluoai",
        "tokens=9,hidden=136,intermediate=88,experts=8,top_k=2,align=4,layout=n_major,part=up,out=places"}) {
    CAPTURE(problem);
    SimtProblem one = multiplied(problem);
    if (!one.problem.is("part", "up")) one.call.integers[kExpertsDownRow] += 16;
    one.call.integers[kExpertsDownExpert] = one.call.integers[kExpertsDownRow] * one.problem["intermediate"] + 8;
    check_outputs(one.reference(Reference::exact), one.on_cpu(), near(1e-5));
    check_bodies(one, 2);
  }
}

TEST_CASE("simt: moe_experts with the largest tiles of the mma body, run after run") {
  const SimtProblem one = multiplied("tokens=50,hidden=72,intermediate=72,experts=8,top_k=3,align=1,skew=one");
  const Config config =
      shared_space("moe_experts")
          .parse_config(
              "body=mma,rows=128,warps=8,depth=64,up_columns=128,up_stages=2,"
              "down_columns=256,down_stages=2,residents=1,launches=3,weights=keep,schedule=persistent",
              nullptr);
  check_body(one, config, 5, one.reference(Reference::exact), 2);
}

TEST_CASE("simt: moe_experts with one expert that has every token, and rows and weights that lie apart") {
  SimtProblem one = multiplied("tokens=70,hidden=72,intermediate=40,experts=8,top_k=1,align=1,skew=one");
  one.call.integers[kMoeRow] = 88;
  one.call.integers[kExpertsOutRow] = 80;
  one.call.integers[kExpertsUpRow] = 80;
  one.call.integers[kExpertsUpExpert] = 80 * 80 + 8;
  one.call.integers[kExpertsDownRow] = 48;
  one.call.integers[kExpertsDownExpert] = 72 * 48 + 16;
  check_bodies(one, 2);
}

TEST_CASE("simt: offsets and slots may be anything: moe_experts touches nothing outside of its tensors") {
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::array<std::int32_t, 9> lists[] = {
      {0, 4, 2, kLeast, kMost, 7, 0, 1, 5}, {kMost, 0, 0, 0, 0, 0, 0, 0, kMost}, {-5, -4, 20, 20, 20, 20, 20, 20, 20}};
  for (const auto& offsets : lists) {
    SimtProblem one = multiplied("tokens=7,hidden=72,intermediate=40,experts=8,top_k=2,align=1");
    one.edit = [&](SimtTensors& tensors) {
      std::memcpy(tensors.bytes("offsets").data(), offsets.data(), sizeof offsets);
      const std::int32_t slots[] = {kLeast, -1, 14, kMost};
      std::memcpy(tensors.bytes("sorted").data(), slots, sizeof slots);
    };
    for (const Config& config : small_tiles(one, simt_sample(1))) {
      CAPTURE(config.text());
      CHECK_NOTHROW(one.run(config, 3));  // the emulator knows where each tensor ends
    }
    one.limits = limits_of_architecture("sm_90a");
    one.limits.sm_count = 3;
    for (const char* launches : {"launches=2,schedule=persistent", "launches=3,schedule=grid"}) {
      CAPTURE(launches);
      const std::string both = std::string("body=wgmma,rows=64,warps=4,depth=64,up_columns=32,up_stages=4,") +
                               "down_columns=64,down_stages=4,residents=1,weights=keep," + launches;
      CHECK_NOTHROW(one.run(one.config(both, ""), 3));
    }
  }
}

TEST_CASE("simt: moe_experts' mma body unpacks mxfp4, under several schedules") {
  const SimtProblem one = multiplied(kPackedExperts);
  const HostTensors right = one.reference(Reference::exact);
  std::uint64_t schedule = 0;
  for (const char* changes : {"rows=16,warps=4", "rows=64,warps=4,depth=128", "rows=128,warps=8",
                              "rows=32,warps=4,up_stages=3,schedule=persistent"}) {
    const Config config = one.config(
        "body=mma,rows=64,warps=4,depth=64,up_columns=64,up_stages=2,down_columns=64,down_stages=2,"
        "residents=1,launches=3,weights=keep,schedule=grid",
        changes);
    CAPTURE(config.text());
    check_outputs(one.run(config, schedule++, 1), right, near(0.02));
  }
}

TEST_CASE("simt: moe_experts' mma body widens e4m3, under several schedules") {
  const SimtProblem one = multiplied(kNarrowExperts);
  const HostTensors right = one.reference(Reference::exact);
  std::uint64_t schedule = 0;
  for (const char* changes :
       {"rows=16,warps=4", "rows=64,warps=4", "rows=128,warps=8", "rows=32,warps=4,up_stages=3,schedule=persistent"}) {
    const Config config = one.config(
        "body=mma,rows=64,warps=4,depth=128,up_columns=128,up_stages=2,down_columns=128,down_stages=2,"
        "residents=1,launches=3,weights=keep,schedule=grid",
        changes);
    CAPTURE(config.text());
    check_outputs(one.run(config, schedule++, 1), right, near(0.06));
  }
}
