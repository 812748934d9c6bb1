#include "tuner/compile/static_facts.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/tuner/compile/made_up_cubin.h"
#include "tests/tuner/compile/one_launch.h"

using namespace moetune;

namespace {

struct Case : OneLaunch {
  Case()
      : OneLaunch({.entry = "k", .grid = {200, 2, 1}, .block = {256, 1, 1}, .dynamic_shared = 50'000},
                  {.registers = 64, .spill_store_bytes = 8, .spill_load_bytes = 16, .static_shared = 1000}) {
    build.cubin.resize(4321);
    limits.sm_count = 132;
  }
  double fact(std::string_view name) const {
    const Facts facts = static_facts(plan, build, limits);
    REQUIRE(facts.size() == kFactNames.size());
    return facts[static_cast<std::size_t>(std::find(kFactNames.begin(), kFactNames.end(), name) -
                                          kFactNames.begin())];
  }
};

}  // namespace

TEST_CASE("the facts are those of the compiler, the plan and the device together") {
  const Case c;
  CHECK(c.fact("registers") == 64);
  CHECK(c.fact("spill_bytes") == 24);
  CHECK(c.fact("shared_bytes") == 51'000);
  CHECK(c.fact("resident_blocks") ==
        4);  // 65536 registers over 16384 a block; shared memory would allow 4 too
  CHECK(c.fact("resident_warps") == 32);
  CHECK(c.fact("blocks") == 400);
  CHECK(c.fact("wave_share") == doctest::Approx(400.0 / 528));
  CHECK(c.fact("cubin_bytes") == 4321);
}

TEST_CASE("the instructions of the launch that speaks are counted") {
  Case c;
  CHECK(c.fact("instructions") == 0);  // its bytes are no cubin
  CHECK(c.fact("tensor_share") == 0);
  constexpr std::uint64_t kHmma = 0x000000082010723c, kLds = 0x0000000005087984, kMufu = 0x0000000500057308,
                          kMove = 0x0000000005057202, kNop = 0x0000000000007918;
  c.build.cubin = made_up_cubin(
      {{"combine", {kMufu}}, {"k", {kHmma, kHmma, kHmma, kLds, kLds, kMufu, kMove, kMove, kNop}}});
  CHECK(c.fact("instructions") == 8);
  CHECK(c.fact("tensor_share") == 3.0 / 8);
  CHECK(c.fact("shared_share") == 2.0 / 8);
  CHECK(c.fact("special_share") == 1.0 / 8);
}

TEST_CASE("registers, shared memory, threads and the block limit each bound what an SM holds") {
  Case c;
  const auto resident = [&] { return resident_blocks(c.plan.launches[0], c.build.entries["k"], c.limits); };
  c.build.entries["k"].registers = 128;
  CHECK(resident() == 2);
  c.build.entries["k"].registers = 16;
  CHECK(resident() == 4);  // 233472 bytes over 52024
  c.plan.launches[0].dynamic_shared = 0;
  CHECK(resident() == 8);  // 2048 threads
  c.plan.launches[0].block = {32, 1, 1};
  CHECK(resident() == 32);
  c.plan.launches[0].dynamic_shared = 300'000;
  CHECK(resident() == 0);
}

TEST_CASE("of several launches the one whose blocks take the most speaks") {
  Case c;
  const Launch heaviest = c.plan.launches[0];
  c.plan.launches = {{.entry = "combine", .grid = {7, 1, 1}, .block = {64, 1, 1}}, heaviest};
  c.build.entries["combine"] = {.registers = 20};
  CHECK(c.fact("blocks") == 400);
}

TEST_CASE("what did not compile, or cannot be launched, has no facts") {
  Case failed, foreign, large;
  failed.build.outcome = Outcome::compile_failed;
  CHECK(static_facts(failed.plan, failed.build, failed.limits).empty());
  foreign.plan.launches[0].entry = "other";
  CHECK(static_facts(foreign.plan, foreign.build, foreign.limits).empty());
  large.plan.launches[0].dynamic_shared = 300'000;
  CHECK(static_facts(large.plan, large.build, large.limits).empty());
  CHECK(static_facts({}, large.build, large.limits).empty());
}
