#include "tuner/history.h"

#include <doctest/doctest.h>

#include "base/resources.h"
#include "kernels/registry.h"
#include "tests/tuner/temporary_cache.h"

using namespace moetune;

namespace {

WorkloadKey key(const std::string& problem, const std::string& hardware = "NVIDIA H200") {
  WorkloadKey key{.kernel = "decode_attention", .problem = problem, .source_digest = "s", .toolchain = "t"};
  key.hardware.name = hardware;
  return key;
}

LegalSpace line() {
  Parameter tile{"tile", {Value::integer(16), Value::integer(32), Value::integer(64)}, ""};
  return LegalSpace({tile}, {0, 1, 2});
}

void add(TemporaryCache& stored, const WorkloadKey& workload, const std::string& config, double time_us) {
  stored.cache.trials.put(stored.cache.workloads.id(workload), {.config = config, .outcome = "ok", .time_us = time_us});
}

}  // namespace

TEST_CASE("a doubled dimension is nearer than other hardware, and that than another dtype") {
  const WorkloadKey here = key("batch=16,context=4096,dtype=bf16");
  CHECK(workload_distance(here, here) == 0);
  const double doubled = workload_distance(here, key("batch=32,context=4096,dtype=bf16"));
  const double elsewhere = workload_distance(here, key("batch=16,context=4096,dtype=bf16", "NVIDIA H100"));
  const double half = workload_distance(here, key("batch=16,context=4096,dtype=fp16"));
  CHECK(doubled == doctest::Approx(1));
  CHECK(workload_distance(here, key("batch=8,context=4096,dtype=bf16")) == doctest::Approx(1));
  CHECK(doubled < elsewhere);
  CHECK(elsewhere < half);
  WorkloadKey other_sources = here, other_compiler = here, other_timing = here;
  other_sources.source_digest = "s2";
  other_compiler.toolchain = "t2";
  other_timing.timing = Timing::chained;
  CHECK(workload_distance(here, other_sources) == workload_distance(here, other_compiler));
  CHECK(workload_distance(here, other_timing) > 0);
  CHECK(workload_distance(here, other_timing) < workload_distance(here, other_sources));
  CHECK(workload_distance(here, other_sources) < doubled);
}

TEST_CASE("histories come nearest first, without the workload itself and without foreign kernels") {
  TemporaryCache stored;
  const WorkloadKey here = key("batch=16,context=4096");
  WorkloadKey foreign = key("batch=16,context=4096");
  foreign.kernel = "router";
  add(stored, here, "tile=16", 1);
  add(stored, foreign, "tile=16", 2);
  add(stored, key("batch=64,context=4096"), "tile=16", 3);
  add(stored, key("batch=32,context=4096"), "tile=32", 4);

  const std::vector<History> histories = histories_for(stored.cache, here, line());
  REQUIRE(histories.size() == 2);
  REQUIRE(histories[0].trials.size() == 1);
  CHECK(histories[0].trials[0].point == std::vector<Position>{1});
  CHECK(histories[0].trials[0].time_us == 4);
  CHECK(histories[1].trials[0].time_us == 3);
}

TEST_CASE("configurations of values that this space lacks are left out, and so is a history with nothing left") {
  TemporaryCache stored;
  add(stored, key("batch=1"), "tile=16", 1);
  add(stored, key("batch=1"), "tile=128", 2);
  add(stored, key("batch=2"), "loader=tma", 3);
  const std::vector<History> histories = histories_for(stored.cache, key("batch=4"), line());
  REQUIRE(histories.size() == 1);
  CHECK(histories[0].trials.size() == 1);
}

TEST_CASE("a configuration that is not legal here, of values that are known here, is experience too") {
  TemporaryCache stored;
  add(stored, key("batch=1"), "tile=64", 1);
  const LegalSpace narrow(line().parameters(), {0, 1});
  const std::vector<History> histories = histories_for(stored.cache, key("batch=4"), narrow);
  REQUIRE(histories.size() == 1);
  CHECK(histories[0].trials[0].point == std::vector<Position>{2});
}

TEST_CASE("a workload that is not as moetune writes them is left out with a sentence, and the others serve") {
  TemporaryCache stored;
  add(stored, key("problem_size=(4096, 128)"), "tile=16", 1);
  add(stored, key("batch=2"), "tile", 2);
  add(stored, key("batch=1"), "tile=64", 3);
  std::vector<std::string> left_out;
  const std::vector<History> histories =
      histories_for(stored.cache, key("batch=4"), line(), nullptr,
                    [&](const std::string& sentence) { left_out.push_back(sentence); });
  REQUIRE(histories.size() == 1);
  CHECK(histories[0].trials[0].time_us == 3);
  REQUIRE(left_out.size() == 2);
  CHECK(left_out[0].starts_with("The trials of decode_attention problem_size=(4096, 128) on NVIDIA H200"));
  CHECK(left_out[1].find("batch=2 on NVIDIA H200 in the cache are left out: ") != std::string::npos);
}

TEST_CASE("the number of histories is bounded") {
  TemporaryCache stored;
  for (int batch = 1; batch <= 20; ++batch) add(stored, key("batch=" + std::to_string(batch)), "tile=16", batch);
  CHECK(histories_for(stored.cache, key("batch=100"), line()).size() == kMostHistories);
}

TEST_CASE("a history of a like problem is carried over: as many blocks as there, and so other splits") {
  const Kernel& kernel = find_kernel("decode_attention");
  const Space space = Space::parse(read_resource("spaces/decode_attention.json"), "spaces/decode_attention.json");
  const TransferContext context{&kernel, &space, limits_of_architecture("sm_90a")};
  const auto problem = [&](const char* text) { return kernel.parse(text); };
  const Problem there = problem("batch=8,context=4096"), here = problem("batch=4,context=4096");
  const LegalSpace legal = space.enumerate(expression_environment(here, context.limits));
  const auto config = [](const char* splits) {
    return "body=tma,math=mma16,schedule=grid,residents=0,tile=64,warps=4,stages=2,producers=1,row_tiles=1,"
           "query=registers,l2=evict_first,splits=" +
           std::string(splits) + ",combine=kernel,ahead=0";
  };
  TemporaryCache stored;
  add(stored, key(there.text()), config("2"), 30);
  add(stored, key("batch=8,horns=2"), config("2"), 30);  // of a kernel that once had horns
  const std::vector<History> histories = histories_for(stored.cache, key(here.text()), legal, &context);
  REQUIRE(histories.size() == 2);
  CHECK(histories[0].distance == doctest::Approx(1));
  CHECK(histories[0].trials.at(0).point == *legal.point_of(config("4")));
  CHECK(histories[1].trials.at(0).point == *legal.point_of(config("2")));

  const std::vector<History> as_they_are = histories_for(stored.cache, key(here.text()), legal);
  CHECK(as_they_are.at(0).trials.at(0).point == *legal.point_of(config("2")));
  // Another space than the kernel's own, as an old recording's: nothing to go by.
  CHECK_FALSE(transfer_between(context, key(there.text()), key(here.text()), line()).has_value());
}
