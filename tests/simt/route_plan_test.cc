// route_plan's templates on the CPU: the reference against a plain answer, and configurations spread over the space
// against the reference, every integer of every output.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/kernel_space.h"
#include "kernels/moe/route_plan_problem.h"
#include "tests/kernels/answers/answers.h"
#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

const std::vector<std::string> kPlanProblems = {
    "tokens=1,experts=256,top_k=8",
    "tokens=64,experts=256,top_k=8,align=64",
    "tokens=150,experts=8,top_k=2,align=1,skew=one",
    "tokens=37,experts=32,top_k=4,layout=rows,align=128,skew=zipf",
    "tokens=90,experts=60,top_k=6,layout=ends,ids=i64,align=8",
    "tokens=120,experts=16,top_k=8,map=local,skew=zipf",
    "tokens=33,experts=2,top_k=8,map=local,ids=i64,layout=rows,align=4",
    "tokens=70,experts=40,top_k=3,layout=masked,segment=5,dropped=mask,skew=zipf",
    "tokens=61,experts=24,top_k=6,layout=masked,segment=9,dropped=mask,map=local,count=device",
    "tokens=45,experts=1,top_k=5,count=device",
    "tokens=12,experts=1024,top_k=32,align=2",
    "tokens=50,experts=33,top_k=1,layout=ends,count=device",
};

// Ids that a router would not give: some twice in a token, some of no expert. Those of 64 bits look like an expert's if
// they are cut to 32.
void make_odd(SimtTensors& tensors, DType type) {
  std::mt19937 random(7);
  const std::int64_t none[] = {-1, std::numeric_limits<std::int32_t>::min(), 1023, 1024,
                               std::numeric_limits<std::int32_t>::max()};
  std::vector<std::uint8_t>& bytes = tensors.bytes("ids");
  const std::size_t size = static_cast<std::size_t>(dtype_bytes(type));
  for (std::size_t at = size; at < bytes.size(); at += size) {
    std::int64_t id = 0;
    std::memcpy(&id, bytes.data() + at - size, size);
    const auto kind = random() % 6;
    if (kind > 2) continue;
    if (kind == 1) id = none[random() % 5];
    if (kind == 2 && type == DType::i64) id = (std::int64_t{1} << 32) + id;
    std::memcpy(bytes.data() + at, &id, size);
  }
}

SimtProblem odd_problem(const std::string& text) {
  SimtProblem one("route_plan", text, 5);
  one.edit = [type = RoutePlanShape(one.problem).ids](SimtTensors& tensors) { make_odd(tensors, type); };
  return one;
}

// The answer of inputs as they were edited.
HostTensors plain_answer(const SimtProblem& one) {
  SimtTensors tensors = one.tensors();
  HostTensors inputs;
  for (const auto& [name, ignored] : tensors.inputs()) {
    const DType type = name == "ids" ? RoutePlanShape(one.problem).ids : DType::i32;
    inputs[name] = widened(type, tensors.bytes(name));
  }
  return answer_on_cpu(one.problem, one.call, inputs);
}

}  // namespace

TEST_CASE("simt: route_plan's reference agrees with a plain answer, for the router's ids and for odd ones") {
  for (const std::string& text : kPlanProblems) {
    CAPTURE(text);
    for (const SimtProblem& one : {SimtProblem("route_plan", text, 5), odd_problem(text)})
      check_outputs(one.reference(Reference::exact), plain_answer(one), is_same);
  }
}

TEST_CASE("simt: route_plan configurations write what the reference does, run after run") {
  std::uint64_t schedule = 0;
  for (const std::string& text : kPlanProblems) {
    CAPTURE(text);
    for (const SimtProblem& one : {SimtProblem("route_plan", text, 5), odd_problem(text)}) {
      const HostTensors right = one.reference(Reference::exact);
      for (const char* const body : {"apart", "split"}) {
        const auto wanted = [&](const Config& config) { return config.is("schedule", body); };
        for (const Config& config : one.sample(simt_sample(1), Rules::all, wanted)) {
          CAPTURE(config.text());
          check_outputs(one.run(config, schedule++, 2), right, is_same);
        }
      }
    }
  }
}

TEST_CASE("simt: route_plan by more blocks than have work, and by blocks that do not run at the same time") {
  for (const char* const text :
       {"tokens=3,experts=8,top_k=2,align=4", "tokens=333,experts=40,top_k=3,map=local,layout=rows"}) {
    CAPTURE(text);
    SimtProblem one = odd_problem(text);
    const HostTensors right = one.reference(Reference::exact);
    for (const char* const config :
         {"schedule=apart,blocks=128,warps=2,flight=8,pad=last", "schedule=apart,blocks=4,warps=32,flight=2,pad=last",
          "schedule=split,blocks=128,warps=4,flight=1,pad=first",
          "schedule=split,blocks=16,warps=1,flight=1,pad=last"}) {
      CAPTURE(config);
      for (const std::uint32_t resident : {0, 1}) {
        one.resident_blocks = resident;
        check_outputs(one.run(shared_space("route_plan").parse_config(config), 3, 2), right, is_same);
      }
    }
  }
}

TEST_CASE("simt: route_plan's number of tokens on the device may be none, all, or no number of tokens") {
  for (const std::int32_t count : {0, 1, 40, 41, 1 << 30, -1, -(1 << 30)}) {
    CAPTURE(count);
    SimtProblem one("route_plan", "tokens=40,experts=32,top_k=3,align=8,count=device", 5);
    one.edit = [count](SimtTensors& tensors) {
      std::memcpy(tensors.bytes("token_count").data(), &count, sizeof count);
    };
    const HostTensors right = one.reference(Reference::exact);
    const std::vector<double>& inverse = right.at("inverse");
    CHECK(std::count(inverse.begin(), inverse.end(), -1) == 120 - 3 * std::clamp(count, 0, 40));
    for (const Config& config : one.sample(2 * simt_sample(2), Rules::all)) {
      CAPTURE(config.text());
      check_outputs(one.run(config, 1, 2), right, is_same);
    }
  }
}

TEST_CASE("simt: route_plan's defaults write what the reference does, for few tokens and many") {
  for (const char* const tokens : {"tokens=5", "tokens=300", "tokens=1200", "tokens=9000"}) {
    const SimtProblem one = odd_problem(std::string(tokens) + ",experts=64,top_k=8,map=local");
    const auto usual = shared_space("route_plan").default_config(expression_environment(one.problem, one.limits));
    CAPTURE(usual.value().text());
    check_outputs(one.run(*usual, 4), one.reference(Reference::exact), is_same);
  }
}
