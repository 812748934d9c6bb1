// The router's host half: sizes, rules, calls, and the answer in float64 on examples worked out by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/integers.h"
#include "include/moetune.h"
#include "kernels/moe/router_problem.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"
#include "tests/kernels/kernel_checks.h"

namespace moetune::router_test {
namespace {

const Kernel& kernel() { return find_kernel("router"); }

Problem problem_of(const std::string& text, const char* preset_name = nullptr) {
  const Preset* preset = nullptr;
  for (const Preset& one : kernel().presets()) {
    if (preset_name != nullptr && one.name == preset_name) preset = &one;
  }
  REQUIRE((preset != nullptr) == (preset_name != nullptr));
  Problem problem = kernel().parse(text, preset);
  kernel().check(problem);
  return problem;
}

std::vector<double> row_of(std::size_t experts, std::map<std::size_t, double> values) {
  std::vector<double> row(experts, -10);
  for (const auto& [expert, value] : values) row[expert] = value;
  return row;
}

HostTensors route(const std::string& text, const std::vector<std::vector<double>>& rows,
                  const std::vector<double>& bias = {}) {
  const Problem problem = problem_of("tokens=" + std::to_string(rows.size()) + "," + text);
  HostTensors inputs;
  for (const std::vector<double>& row : rows) inputs["logits"].insert(inputs["logits"].end(), row.begin(), row.end());
  if (!bias.empty()) inputs["bias"] = bias;
  return answer_on_cpu(problem, inputs);
}

using Values = std::vector<double>;

}  // namespace

TEST_CASE("router: rules across dimensions") {
  CHECK_NOTHROW(problem_of("", "deepseek-v3"));
  for (const char* wrong : {"top_k=16,experts=8",
                            "experts=100,groups=8",
                            "groups=2,groups_kept=3",
                            "align=24",
                            "experts=64,groups=16,groups_kept=1,top_k=8",
                            "map=local,outputs=weights",
                            "count=device,capacity=100",
                            "layout=masked",
                            "segment=4",
                            "layout=rows,outputs=weights",
                            "dropped=mask",
                            "dropped=mask,outputs=ranks,capacity=100",
                            "ranks=8",
                            "outputs=ranks,ranks=3",
                            "outputs=ranks,map=local",
                            "outputs=ranks,capacity=100",
                            "layout=masked,segment=4,outputs=ranks",
                            "align=0",
                            "align=256,experts=7",
                            "capacity=-1",
                            "segment=65537",
                            "top_k=33",
                            "experts=1025",
                            "ids=i16",
                            "layout=blocks,layout=rows"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(problem_of(wrong), BadInput);
  }
}

TEST_CASE("router: room for every way to pad the segments") {
  CHECK(RouterShape(problem_of("tokens=1,experts=256,top_k=8,align=16")).places() == 8 * 16);
  CHECK(RouterShape(problem_of("tokens=64,experts=8,top_k=2,align=16")).places() == 256);
  CHECK(RouterShape(problem_of("tokens=3,experts=8,top_k=1,align=1")).places() == 3);
}

TEST_CASE("router: a capacity is a share of an even load, rounded up") {
  CHECK(RouterShape(problem_of("", "lab")).slots_of_expert() == 320);  // 1.25 * 4096 * 2 / 32
  CHECK(RouterShape(problem_of("tokens=10,experts=8,top_k=1,capacity=100")).slots_of_expert() == 2);
  CHECK(RouterShape(problem_of("tokens=10,experts=8,top_k=3")).slots_of_expert() == 30);
}

TEST_CASE("router: the best experts in order, of equals the lower id, with softmax weights") {
  const HostTensors out = route("experts=8,top_k=3,align=1", {row_of(8, {{5, 2}, {1, 1}, {6, 1}, {7, 1}})});
  CHECK(out.at("ids") == Values{5, 1, 6});
  const double e = std::exp(1.0), sum = e + 2;
  CHECK(out.at("weights")[0] == doctest::Approx(e / sum));
  CHECK(out.at("weights")[1] == doctest::Approx(1 / sum));
  CHECK(out.at("weights")[2] == out.at("weights")[1]);
}

TEST_CASE("router: without renormalizing, weights are the softmax over all experts") {
  const HostTensors out = route("experts=8,top_k=1,renormalize=no,align=1", {Values(8, 3)});
  CHECK(out.at("ids") == Values{0});
  CHECK(out.at("weights")[0] == doctest::Approx(1.0 / 8));
}

TEST_CASE("router: a correction bias selects, and is no part of the weights") {
  std::vector<double> bias(8, 0);
  bias[6] = 5;
  const HostTensors out = route("experts=8,top_k=2,score=sigmoid,bias=correction,renormalize=no,align=1",
                                {row_of(8, {{2, 1}, {6, -1}})}, bias);
  CHECK(out.at("ids") == Values{6, 2});
  CHECK(out.at("weights")[0] == doctest::Approx(1 / (1 + std::exp(1.0))));
  CHECK(out.at("weights")[1] == doctest::Approx(1 / (1 + std::exp(-1.0))));
}

TEST_CASE("router: a group counts as its two best, and a dropped expert comes behind -infinity") {
  // Groups of two: expert 0 is better than 7, whose group is better.
  const double inf = std::numeric_limits<double>::infinity();
  const HostTensors out =
      route("experts=8,groups=4,groups_kept=2,top_k=4,score=sigmoid,align=1", {{-0.5, -9, 3, 3, -9, -9, 2, -inf}});
  CHECK(out.at("ids") == Values{2, 3, 6, 7});
}

TEST_CASE("router: NaN counts as -infinity, and infinity is the largest number") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const HostTensors out = route("experts=8,top_k=2,align=1", {{nan, -inf, 0, inf, 1, 1, 1, 1}, Values(8, nan)});
  CHECK(out.at("ids") == Values{3, 4, 0, 1});
  CHECK(out.at("weights")[0] == 1);
  CHECK(out.at("weights")[1] == 0);
  CHECK(out.at("weights")[2] == 0);  // nothing to share
}

TEST_CASE("router: counts, offsets and permutation of a worked example") {
  // Token 0 takes experts 1 and 2, token 1 takes 2 and 1, token 2 takes 2 and 7.
  const HostTensors out = route("experts=8,top_k=2,align=4", {row_of(8, {{1, 2}, {2, 1}}), row_of(8, {{2, 2}, {1, 1}}),
                                                              row_of(8, {{2, 2}, {7, 1}})});
  CHECK(out.at("ids") == Values{1, 2, 2, 1, 2, 7});
  CHECK(out.at("counts") == Values{0, 2, 3, 0, 0, 0, 0, 1});
  CHECK(out.at("offsets") == Values{0, 0, 4, 8, 8, 8, 8, 8, 12});
  const Values sorted(out.at("sorted").begin(), out.at("sorted").begin() + 12);
  CHECK(sorted == Values{0, 3, 6, 6, 1, 2, 4, 6, 5, 6, 6, 6});
  CHECK(out.at("inverse") == Values{0, 4, 5, 1, 6, 8});
  CHECK(out.at("block_experts") == Values{1, 2, 7, -1, -1, -1});
}

TEST_CASE("router: slots beyond the capacity are dropped in token order") {
  const std::vector<double> row = row_of(8, {{3, 1}});
  const HostTensors out = route("experts=8,top_k=1,align=1,capacity=200", {row, row, row, row});
  CHECK(out.at("counts") == Values{0, 0, 0, 1, 0, 0, 0, 0});  // 2 * 4 / 8
  CHECK(out.at("inverse") == Values{0, -1, -1, -1});
  CHECK(out.at("sorted") == Values{0, 4, 4, 4});
}

TEST_CASE("router: an expert map moves segments, and slots of experts elsewhere get no place") {
  const Problem problem = problem_of("tokens=2,experts=8,top_k=2,align=1,map=local");
  HostTensors inputs = {{"expert_map", {-1, -1, 1, -1, 0, -1, 9, -1}}};
  for (const std::vector<double>& row : {row_of(8, {{2, 2}, {4, 1}}), row_of(8, {{6, 2}, {4, 1}})})
    inputs["logits"].insert(inputs["logits"].end(), row.begin(), row.end());
  const HostTensors out = answer_on_cpu(problem, inputs);
  CHECK(out.at("ids") == Values{2, 4, 6, 4});
  CHECK(out.at("counts") == Values{2, 1, 0, 0, 0, 0, 0, 0});
  CHECK(out.at("inverse") == Values{2, 0, -1, 1});
  CHECK(out.at("sorted") == Values{1, 3, 0, 4});
}

TEST_CASE("router: tokens past the device's count get no expert, weight or place") {
  const Problem problem = problem_of("tokens=3,experts=8,top_k=1,align=1,count=device");
  const HostTensors out = answer_on_cpu(problem, {{"logits", Values(24, 1)}, {"token_count", {1}}});
  CHECK(out.at("ids") == Values{0, -1, -1});
  CHECK(out.at("weights") == Values{1, 0, 0});
  CHECK(out.at("counts")[0] == 1);
  CHECK(out.at("inverse") == Values{0, -1, -1});
}

TEST_CASE("router: another expert is right if its score is within 4 units in the last place, and no further") {
  const auto up = [](float from, int units) {
    for (; units > 0; --units) from = std::nextafter(from, 10.0f);
    return static_cast<double>(from);
  };
  const RouterShape shape(problem_of("tokens=1,experts=8,top_k=2,score=topk_softmax,align=1"));
  const auto ids_as = [&](std::vector<double> row, const Values& chosen) {
    return route_on_cpu_as(shape, 8, 1, {{"logits", std::move(row)}}, chosen).at("ids");
  };
  for (const int units : {0, 4, 5, 8}) {
    CAPTURE(units);
    const bool is_near = units <= 4;
    const std::vector<double> first = row_of(8, {{2, 1}, {3, up(1, units)}, {5, up(1, 100)}});
    CHECK(ids_as(first, {5, 2}) == Values{5, is_near ? 2.0 : 3.0});  // one left out
    const std::vector<double> order = row_of(8, {{2, 1}, {3, up(1, units)}});
    CHECK(ids_as(order, {2, 3}) == (is_near ? Values{2, 3} : Values{3, 2}));  // one behind another
  }
  const std::vector<double> row = row_of(8, {{2, 1}, {3, 1}});
  for (const Values& wrong : {Values{2, 2}, Values{2, 8}, Values{-1, 2}, Values{2, 7}})
    CHECK(ids_as(row, wrong) == Values{2, 3});
}

TEST_CASE("router: another group is right if its sum is within 4 units in the last place, and no further") {
  const RouterShape shape(problem_of("tokens=1,experts=8,top_k=2,score=topk_softmax,groups=4,groups_kept=1,align=1"));
  for (const int units : {0, 4, 5, 8}) {
    CAPTURE(units);
    float above = 2;
    for (int i = 0; i < units; ++i) above = std::nextafter(above, 10.0f);
    // The sums lie as many units apart as their terms, which are half as large.
    HostTensors inputs = {{"logits", row_of(8, {{2, 2}, {3, 2}, {6, above}, {7, above}})}};
    const Values right = units == 0 ? Values{2, 3} : Values{6, 7};
    CHECK(route_on_cpu_as(shape, 8, 1, inputs, {2, 3}).at("ids") == (units <= 4 ? Values{2, 3} : right));
    CHECK(route_on_cpu_as(shape, 8, 1, inputs, {2, 6}).at("ids") == right);  // of two groups, where one is kept
    CHECK(route_on_cpu_as(shape, 8, 1, inputs, right).at("ids") == right);
  }
}

TEST_CASE("router: a skewed problem loads its experts as it says") {
  const Problem problem = problem_of("tokens=200,experts=16,top_k=2,skew=one");
  HostTensors inputs;
  const std::vector<Buffer> buffers = kernel().buffers(problem, 1);
  inputs["logits"] = host_values(buffers[0], 1, fill_stream(0, 0));
  const HostTensors out = answer_on_cpu(problem, inputs);
  CHECK(out.at("counts")[0] == 200);
}

TEST_CASE("router: tensors of a server become extents and a call, and wrong ones are named") {
  const Problem problem = problem_of("experts=64,top_k=4,outputs=weights,dtype=bf16");
  const auto family = kernel().family_interface(problem);
  TensorView logits{DType::bf16, {10, 64}, {128, 1}}, ids{DType::i32, {10, 4}, {4, 1}},
      weights{DType::f32, {10, 4}, {4, 1}};
  std::vector<const TensorView*> tensors = {&logits, nullptr, &ids, &weights};
  Extents extents;
  Call call;
  family->bind(tensors, "scale=2.5", extents, call);
  CHECK(extents == Extents{10});
  CHECK(call.integers[0] == 128);
  CHECK(call.reals[0] == 2.5);
  const auto refused = [&](const char* why) {
    CHECK_THROWS_WITH_AS(family->bind(tensors, "", extents, call), doctest::Contains(why), BadInput);
  };
  logits.strides[0] = 65;
  refused("multiple of 16 bytes");
  logits.strides[0] = 64;
  ids.shape[0] = 9;
  refused("'ids' has 36 elements; it must have 40");
  ids.shape[0] = 10;
  weights.dtype = DType::bf16;
  refused("'weights' is bf16; it must be f32");
  weights.dtype = DType::f32;
  CHECK_THROWS_WITH_AS(family->bind(tensors, "layout=x", extents, call), doctest::Contains("scale=NUMBER"), BadInput);
}

TEST_CASE("router: the C interface counts tensors and fields as the family does") {
  check_c_interface(problem_of("bias=correction,score=sigmoid"),
                    {.tensors = {{MOETUNE_ROUTER_LOGITS, "logits"},
                                 {MOETUNE_ROUTER_BIAS, "bias"},
                                 {MOETUNE_ROUTER_IDS, "ids"},
                                 {MOETUNE_ROUTER_WEIGHTS, "weights"},
                                 {MOETUNE_ROUTER_COUNTS, "counts"},
                                 {MOETUNE_ROUTER_OFFSETS, "offsets"},
                                 {MOETUNE_ROUTER_SORTED, "sorted"},
                                 {MOETUNE_ROUTER_INVERSE, "inverse"},
                                 {MOETUNE_ROUTER_BLOCK_EXPERTS, "block_experts"},
                                 {MOETUNE_ROUTER_EXPERT_MAP, "expert_map"},
                                 {MOETUNE_ROUTER_TOKEN_COUNT, "token_count"},
                                 {MOETUNE_ROUTER_ROW_EXPERTS, "row_experts"},
                                 {MOETUNE_ROUTER_ENDS, "ends"},
                                 {MOETUNE_ROUTER_DROPPED, "dropped"},
                                 {MOETUNE_ROUTER_TOKENS_PER_RANK, "tokens_per_rank"},
                                 {MOETUNE_ROUTER_IN_RANK, "in_rank"}},
                     .integers = {{MOETUNE_ROUTER_LOGITS_ROW, "logits_row"}},
                     .reals = {{MOETUNE_ROUTER_SCALE, "scale"}}});
}

TEST_CASE("router: no two configurations launch the same code in the same way") {
  for (const char* text : {"tokens=64", "tokens=4096,experts=128", "tokens=1000,outputs=weights,dtype=bf16"})
    check_launches_differ(problem_of(text), 500);
  check_launches_differ(problem_of("tokens=512,outputs=weights", "deepseek-v3"), 1000);
  check_launches_differ(problem_of("tokens=64", "deepseek-v3"), 1314);
}

TEST_CASE("router: blocks that exchange counts of two digits have fewer tokens than these hold, on small GPUs too") {
  const Problem problem = problem_of("tokens=1048576,experts=32,top_k=2");
  DeviceLimits limits = limits_of_architecture("sm_86");
  std::size_t barriers = 0;
  for (const int sm_count : {4, 16, 20}) {
    limits.sm_count = sm_count;
    const LegalSpace legal = shared_space("router").enumerate(expression_environment(problem, limits), Rules::must);
    for (std::size_t i = 0; i < legal.size(); ++i) {
      const Config config = legal.config(i);
      if (!config.is("schedule", "barrier")) continue;
      ++barriers;
      const Plan plan = kernel().plan(config, problem, limits);
      for (const Argument& argument : plan.launches[0].arguments) {
        if (argument.name == "tokens_of_block") CHECK(std::get<std::int32_t>(argument.value) < 255 * 255);
      }
    }
  }
  CHECK(barriers > 0);
}

TEST_CASE("router: a typical problem has a thousand configurations to choose from") {
  for (const char* const text : {"tokens=64", "tokens=4096", "tokens=64,outputs=weights", "tokens=512,outputs=weights",
                                 "tokens=4096,outputs=weights", "tokens=16384,outputs=weights"}) {
    CAPTURE(text);
    DeviceLimits limits = limits_of_architecture("sm_90a");
    limits.sm_count = 132;
    const LegalSpace legal =
        shared_space("router").enumerate(expression_environment(problem_of(text, "deepseek-v3"), limits));
    CHECK(legal.size() >= 1000);
  }
}

TEST_CASE("router: at the shapes of models a default's warps take one token after another as seldom as can be") {
  for (const Preset& preset : kernel().presets()) {
    for (const char* const text : {"tokens=1", "tokens=64", "tokens=4096", "tokens=512,outputs=weights"}) {
      CAPTURE(preset.name);
      CAPTURE(text);
      const Problem problem = problem_of(text, preset.name.c_str());
      DeviceLimits limits = limits_of_architecture("sm_90a");
      limits.sm_count = 132;
      const auto usual = shared_space("router").default_config(expression_environment(problem, limits));
      REQUIRE(usual);
      const std::int64_t rows = usual->number("warps") * (32 / usual->number("lanes")) * usual->number("rows");
      const std::int64_t blocks = kernel().plan(*usual, problem, limits).launches[0].grid[0];
      // With a barrier half of an SM takes two rounds, while the next kernel's blocks wait in the other half.
      const std::int64_t rounds = usual->is("schedule", "barrier") ? 2 : 1;
      CHECK(ceil_div(problem["tokens"], blocks) <= rounds * rows);
    }
  }
}

TEST_CASE("router: of a default's blocks that leave room beside them, none lets the next kernel start at once") {
  for (const Preset& preset : kernel().presets()) {
    for (const char* const text : {"tokens=1", "tokens=64", "tokens=512", "tokens=4096", "tokens=16384"}) {
      CAPTURE(preset.name);
      CAPTURE(text);
      const Problem problem = problem_of(text, preset.name.c_str());
      for (const char* const architecture : {"sm_80", "sm_90a", "sm_120a"}) {
        CAPTURE(architecture);
        const Assignment environment = expression_environment(problem, limits_of_architecture(architecture));
        const auto usual = shared_space("router").default_config(environment);
        REQUIRE(usual);
        CHECK(shared_space("router").why_illegal(*usual, environment).empty());
        if (problem["tokens"] > 128) CHECK(usual->is("schedule", "barrier"));
        if (architecture == std::string("sm_80")) continue;  // no kernel starts early there
        if (usual->number("warps") < 32) CHECK(usual->is("dependents", "selected"));
      }
    }
  }
}

}  // namespace moetune::router_test
