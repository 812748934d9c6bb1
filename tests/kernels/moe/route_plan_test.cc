// route_plan's host half: rules, calls, inputs, and the answer on examples worked out by hand and against plan_routing.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/error.h"
#include "include/moetune.h"
#include "kernels/moe/route_plan_problem.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"
#include "tests/kernels/kernel_checks.h"

namespace moetune::route_plan_test {
namespace {

using Values = std::vector<double>;

const Kernel& kernel() { return find_kernel("route_plan"); }

Problem problem_of(const std::string& text) { return checked_problem("route_plan", text); }

Values head(const Values& values, std::ptrdiff_t count) { return {values.begin(), values.begin() + count}; }

}  // namespace

TEST_CASE("route_plan: rules across dimensions, and of calls") {
  for (const char* wrong : {"align=24", "layout=masked", "segment=4", "dropped=mask", "layout=rows,segment=4",
                            "align=0", "experts=0", "experts=1025", "top_k=33", "ids=i16", "tokens=0", "map=global"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(problem_of(wrong), BadInput);
  }
  CHECK_NOTHROW(problem_of("experts=1,top_k=32"));
  const auto check_size = [](const char* text, std::int64_t size) {
    const Problem problem = problem_of(text);
    Call call = kernel().default_call(problem);
    CHECK_NOTHROW(kernel().check_call(problem, call));
    call.integers[kMapSize] = size;
    CHECK_THROWS_AS(kernel().check_call(problem, call), BadInput);
  };
  check_size("", 1);
  check_size("map=local", 0);
  check_size("map=local", -1);
  check_size("map=local", (std::int64_t{1} << 20) + 1);
}

TEST_CASE("route_plan: counts, offsets and permutation of a worked example, an expert twice in a token") {
  const Problem problem = problem_of("tokens=4,experts=4,top_k=2,align=4");
  const HostTensors out = answer_on_cpu(problem, {{"ids", {1, 2, 2, 1, 2, 2, 3, 0}}});
  CHECK(out.at("counts") == Values{1, 2, 4, 1});
  CHECK(out.at("offsets") == Values{0, 4, 8, 12, 16});
  CHECK(head(out.at("sorted"), 16) == Values{7, 8, 8, 8, 0, 3, 8, 8, 1, 2, 4, 5, 6, 8, 8, 8});
  CHECK(out.at("inverse") == Values{4, 8, 9, 5, 10, 11, 12, 0});
  CHECK(out.at("block_experts") == Values{0, 1, 2, 3, -1});
}

TEST_CASE("route_plan: ids that name no expert here have no place, whatever they are") {
  const Problem wide = problem_of("tokens=4,experts=2,top_k=2,align=1,ids=i64,layout=ends");
  const HostTensors out = answer_on_cpu(wide, {{"ids", {0, -1, 2, 1, 4294967296.0, -4294967295.0, 1, 1e18}}});
  CHECK(out.at("counts") == Values{1, 2});
  CHECK(out.at("ends") == Values{1, 3});
  CHECK(out.at("inverse") == Values{0, -1, -1, 1, -1, -1, 2, -1});
  const Problem mapped = problem_of("tokens=4,experts=2,top_k=2,align=1,map=local");
  Call call = kernel().default_call(mapped);
  call.integers[kMapSize] = 5;
  const HostTensors local =
      answer_on_cpu(mapped, call, {{"ids", {0, 1, 2, 3, 4, 5, -1, 1}}, {"expert_map", {1, 1, -1, 2, 0}}});
  CHECK(local.at("counts") == Values{1, 3});
  CHECK(local.at("inverse") == Values{1, 2, -1, -1, 0, -1, -1, 3});
}

TEST_CASE("route_plan: tokens past the device's count, and slots beyond a segment, have no place") {
  const Problem problem = problem_of("tokens=3,experts=2,top_k=1,layout=masked,segment=1,dropped=mask,count=device");
  const HostTensors out = answer_on_cpu(problem, {{"ids", {1, 1, 0}}, {"token_count", {2}}});
  CHECK(out.at("counts") == Values{0, 1});
  CHECK(out.at("sorted") == Values{3, 0});
  CHECK(out.at("inverse") == Values{1, -1, -1});
  CHECK(out.at("dropped") == Values{0, 1, 0});
}

TEST_CASE("route_plan: any ids are placed as the router places them") {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const auto draw = [&](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
    const bool is_masked = draw(0, 3) == 0;
    const std::int64_t tokens = draw(1, 40), experts = draw(1, 30), top_k = draw(1, 6);
    std::string text = "tokens=" + std::to_string(tokens) + ",experts=" + std::to_string(experts) +
                       ",top_k=" + std::to_string(top_k) + ",align=" + std::to_string(1 << draw(0, 5));
    text += is_masked ? ",layout=masked,segment=" + std::to_string(draw(1, 9))
                      : std::string(",layout=") + (draw(0, 1) == 0 ? "blocks" : "rows");
    CAPTURE(text);
    const Problem problem = problem_of(text);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * top_k)), segments;
    for (std::int32_t& id : ids) id = draw(-2, static_cast<int>(experts) + 2);
    std::ranges::transform(ids, std::back_inserter(segments),
                           [&](std::int32_t id) { return id < experts ? std::max(id, -1) : -1; });
    const RoutingPlan plan = plan_routing(RoutePlanShape(problem).sizes(), segments);
    const HostTensors out = answer_on_cpu(problem, {{"ids", {ids.begin(), ids.end()}}});
    const auto same = [&](const char* name, const std::vector<std::int32_t>& right) {
      CHECK(out.at(name) == Values(right.begin(), right.end()));
    };
    same("counts", plan.counts);
    same("sorted", plan.sorted);
    same("inverse", plan.inverse);
    if (is_masked) continue;
    same("offsets", plan.offsets);
    if (problem.is("layout", "blocks")) same("block_experts", plan.block_experts);
    if (problem.is("layout", "rows")) same("row_experts", plan.row_experts);
  }
}

TEST_CASE("route_plan: test inputs have distinct experts in a token, and load them as the problem says") {
  for (const char* text : {"tokens=50,experts=16,top_k=4", "tokens=9,experts=2,top_k=8,map=local",
                           "tokens=7,experts=3,top_k=8", "tokens=50,experts=64,top_k=4,map=local,ids=i64"}) {
    CAPTURE(text);
    const Problem problem = problem_of(text);
    const std::vector<Buffer> buffers = kernel().buffers(problem, 3);
    CHECK_NOTHROW(check_buffers(buffers));
    const Values ids = host_values(buffers[0], 3, fill_stream(0, 0));
    const std::ptrdiff_t top_k = problem["top_k"];
    for (auto token = ids.begin(); token != ids.end(); token += top_k)
      CHECK(std::set<double>(token, token + top_k).size() == static_cast<std::size_t>(top_k));
  }
  const Problem skewed = problem_of("tokens=200,experts=16,top_k=2,skew=one");
  const Values ids = host_values(kernel().buffers(skewed, 1)[0], 1, fill_stream(0, 0));
  CHECK(answer_on_cpu(skewed, {{"ids", ids}}).at("counts")[0] == 200);
}

TEST_CASE("route_plan: half of the slots are here with a map, as the test inputs have it") {
  const Problem problem = problem_of("tokens=400,experts=32,top_k=8,map=local");
  const std::vector<Buffer> buffers = kernel().buffers(problem, 3);
  const Values inverse = answer_on_cpu(problem, {{"ids", host_values(buffers[0], 3, fill_stream(0, 0))},
                                                 {"expert_map", host_values(buffers[1], 3, fill_stream(1, 0))}})
                             .at("inverse");
  const auto elsewhere = static_cast<double>(std::count(inverse.begin(), inverse.end(), -1));
  CHECK(elsewhere / 3200 == doctest::Approx(0.5).epsilon(0.1));
}

TEST_CASE("route_plan: every byte of its tensors counts once") {
  for (const char* text : {"tokens=50,experts=16,top_k=4", "tokens=9,experts=4,top_k=2,map=local,ids=i64,layout=ends",
                           "tokens=9,experts=4,top_k=2,layout=masked,segment=3,dropped=mask,count=device",
                           "tokens=9,experts=4,top_k=2,layout=rows,align=1"}) {
    CAPTURE(text);
    const Problem problem = problem_of(text);
    double read = 0, written = 0;
    for (const Buffer& buffer : kernel().buffers(problem, 1))
      (buffer.is_written() ? written : read) += static_cast<double>(buffer.bytes());
    CHECK(kernel().cost(problem).read_bytes == read);
    CHECK(kernel().cost(problem).written_bytes == written);
  }
}

TEST_CASE("route_plan: tensors of a server become extents and a call, and wrong ones are named") {
  const auto family = kernel().family_interface(problem_of("experts=4,top_k=2,align=1,map=local,ids=i64"));
  TensorView ids{DType::i64, {10, 2}, {2, 1}}, map{DType::i32, {9}, {1}}, counts{DType::i32, {4}, {1}},
      offsets{DType::i32, {5}, {1}}, sorted{DType::i32, {20}, {1}}, inverse{DType::i32, {10, 2}, {2, 1}},
      blocks{DType::i32, {20}, {1}};
  std::vector<const TensorView*> tensors = {&ids, &map, nullptr, &counts, &offsets, &sorted, &inverse, &blocks};
  Extents extents;
  Call call;
  family->bind(tensors, "", extents, call);
  CHECK(extents == Extents{10});
  CHECK(call.integers[kMapSize] == 9);
  const auto refused = [&](const char* why, const char* options = "") {
    CHECK_THROWS_WITH_AS(family->bind(tensors, options, extents, call), doctest::Contains(why), BadInput);
  };
  refused("there are none", "scale=2");
  ids.dtype = DType::i32;
  refused("'ids' is i32; it must be i64");
  ids.dtype = DType::i64;
  ids.shape[1] = 3;
  refused("'ids' must be [tokens, 2]");
  ids.shape[1] = 2;
  ids.strides[0] = 4;
  refused("'ids'");
  ids.strides[0] = 2;
  map.shape[0] = 0;
  refused("map_size=0");
  map.shape = {3, 3};
  map.strides = {3, 1};
  refused("'expert_map' must have one dimension");
  map.shape = {9};
  map.strides = {1};
  sorted.shape[0] = 19;
  refused("'sorted' has 19 elements; it must have 20");
}

TEST_CASE("route_plan: no two configurations launch the same code in the same way") {
  check_launches_differ(problem_of("tokens=64"), 100);
  check_launches_differ(problem_of("tokens=4096"), 250);
  check_launches_differ(problem_of("tokens=37,experts=8,top_k=3,map=local"), 40);
  check_launches_differ(problem_of("tokens=1"), 20);
}

TEST_CASE("route_plan: the C interface counts tensors and fields as the family does") {
  check_c_interface(problem_of("map=local"), {.tensors = {{MOETUNE_ROUTE_PLAN_IDS, "ids"},
                                                          {MOETUNE_ROUTE_PLAN_EXPERT_MAP, "expert_map"},
                                                          {MOETUNE_ROUTE_PLAN_TOKEN_COUNT, "token_count"},
                                                          {MOETUNE_ROUTE_PLAN_COUNTS, "counts"},
                                                          {MOETUNE_ROUTE_PLAN_OFFSETS, "offsets"},
                                                          {MOETUNE_ROUTE_PLAN_SORTED, "sorted"},
                                                          {MOETUNE_ROUTE_PLAN_INVERSE, "inverse"},
                                                          {MOETUNE_ROUTE_PLAN_BLOCK_EXPERTS, "block_experts"},
                                                          {MOETUNE_ROUTE_PLAN_ROW_EXPERTS, "row_experts"},
                                                          {MOETUNE_ROUTE_PLAN_ENDS, "ends"},
                                                          {MOETUNE_ROUTE_PLAN_DROPPED, "dropped"}},
                                              .integers = {{MOETUNE_ROUTE_PLAN_MAP_SIZE, "map_size"}},
                                              .reals = {}});
}

}  // namespace moetune::route_plan_test
