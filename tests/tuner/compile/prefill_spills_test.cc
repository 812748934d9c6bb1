// prefill_attention's rule for registers: the longest tiles that it allows for heads of 256 do not spill.
#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/sanitized.h"
#include "tuner/compile/compiler.h"

using namespace moetune;

namespace {

struct SpillCase {
  const char* architecture;
  const char* problem;
  const char* config;  // but for the tile
};

constexpr SpillCase kSpillCases[] = {
    {"sm_90a", "head_dim=256",
     "body=wgmma,warpgroups=1,stages=2,query_stages=1,packed=0,overlap=1,ping_pong=0,schedule=dynamic"},
    {"sm_80", "head_dim=256",
     "body=mma,warpgroups=1,stages=1,query_stages=1,packed=0,overlap=0,ping_pong=0,schedule=grid"},
    {"sm_80", "head_dim=256,kv_dtype=e4m3",
     "body=mma,warpgroups=2,stages=1,query_stages=1,packed=0,overlap=0,ping_pong=0,schedule=grid"},
};

}  // namespace

TEST_CASE("the longest tiles of heads of 256 do not spill") {
  if (kSanitized) return;
  const Kernel& kernel = find_kernel("prefill_attention");
  const Space& space = shared_space("prefill_attention");
  for (const SpillCase& test : kSpillCases) {
    CAPTURE(test.architecture);
    CAPTURE(test.problem);
    const DeviceLimits limits = limits_of_architecture(test.architecture);
    const Problem problem = kernel.parse(test.problem);
    const Assignment environment = expression_environment(problem, limits);
    const Config base =
        space.parse_config("tile=32,lag=8,poly=0,trim=0,cluster=1,section=0,splits=1," + std::string(test.config));
    std::optional<Config> longest;
    for (const int tile : {32, 64, 80, 96, 112, 128}) {
      const Config config = space.parse_config("tile=" + std::to_string(tile), &base);
      if (space.why_illegal(config, environment, Rules::must).empty()) longest = config;
    }
    REQUIRE(longest);
    CAPTURE(longest->text());
    const Build build =
        Compiler({.architecture = test.architecture}).compile(kernel.plan(*longest, problem, limits).unit);
    REQUIRE_MESSAGE(build.outcome == Outcome::ok, build.message);
    CHECK(build.entries.at("prefill_attention").spill_store_bytes == 0);
    CHECK(build.entries.at("prefill_attention").spill_load_bytes == 0);
  }
}
