#include "tuner/compile/launchable.h"

#include <doctest/doctest.h>

#include "tests/tuner/compile/one_launch.h"

using namespace moetune;

namespace {

struct Case : OneLaunch {
  Case()
      : OneLaunch({{.entry = "k", .grid = {132, 1, 1}, .block = {256, 1, 1}}, {}},
                  {.registers = 64, .static_shared = 1024}) {}
  std::string why() const { return why_unlaunchable(plan, build, limits); }
};

}  // namespace

TEST_CASE("an ordinary launch may run") { CHECK(Case().why().empty()); }

TEST_CASE("registers are counted as they are handed out: by eight a thread and four warps") {
  Case c;
  c.launch().block = {256, 1, 1};
  c.facts().registers = 255;  // 256 each: exactly 65536
  CHECK(c.why().empty());
  c.launch().block = {288, 1, 1};  // 9 warps take the place of 12
  c.facts().registers = 168;       // 64512
  CHECK(c.why().empty());
  c.facts().registers = 169;
  CHECK(c.why() == "k: 288 threads of 169 registers; the device has 65536 a block");
}

TEST_CASE("static and dynamic shared memory count together") {
  Case c;
  c.launch().dynamic_shared = 227 * 1024 - 1024;
  CHECK(c.why().empty());
  c.launch().dynamic_shared += 1;
  CHECK(c.why() == "k: 232449 bytes of shared memory a block; the device has 232448");
}

TEST_CASE("threads, grids and clusters have their bounds") {
  Case c;
  c.facts().registers = 16;
  c.launch().block = {32, 33, 1};
  CHECK(c.why().find("1056 threads") != std::string::npos);
  c.launch().block = {32, 1, 1};
  c.launch().grid = {1, 70000, 1};
  CHECK(c.why().find("65535") != std::string::npos);
  c.launch().grid = {0, 1, 1};
  CHECK(c.why().find("empty") != std::string::npos);
  c.launch().grid = {130, 1, 1};
  c.launch().cluster = {4, 1, 1};
  CHECK(c.why() == "k: a grid that is no multiple of its cluster");
  c.launch().grid = {128, 1, 1};
  CHECK(c.why().empty());
  c.launch().cluster = {16, 1, 1};
  CHECK(c.why().empty());
  c.launch().cluster = {32, 1, 1};
  CHECK(c.why() == "k: 32 blocks a cluster; at most 16");
  c.launch().cluster = {16, 1, 1};
  c.limits = limits_of_architecture("sm_120a");
  CHECK(c.why() == "k: 16 blocks a cluster; at most 8");
  c.launch().cluster = {2, 1, 1};
  c.limits = limits_of_architecture("sm_89");
  CHECK(c.why() == "k: a cluster, which needs sm_90");
}

TEST_CASE("spills up to the limit are worth a measurement; past it the plan can still run") {
  Case c;
  c.facts().spill_store_bytes = 256;
  c.facts().spill_load_bytes = 256;
  CHECK(why_spilling(c.plan, c.build).empty());
  c.facts().spill_load_bytes += 4;
  CHECK(why_spilling(c.plan, c.build) == "k: 516 bytes of register spills a thread; the limit is 512");
  CHECK(c.why().empty());
}

TEST_CASE("a kernel whose wgmma ptxas serialized is not worth a measurement, and can run all the same") {
  Case c;
  CHECK(why_serialized(c.plan, c.build).empty());
  c.facts().serialized = "insufficient register resources for the wgmma pipeline";
  CHECK(why_serialized(c.plan, c.build) ==
        "k: ptxas serialized wgmma due to insufficient register resources for the wgmma pipeline");
  CHECK(c.why().empty());
}

TEST_CASE("every launch of a plan is looked at, and an entry that was not built is said") {
  Case c;
  c.plan.launches.push_back({{.entry = "combine"}, {}});
  CHECK(c.why() == "combine: no such entry in the build, which has k");
}
