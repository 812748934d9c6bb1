// Launchers as a server uses them: filling a plan allocates nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "base/resources.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/kernels/described/examples.h"

// A sanitizer has an allocator of its own.
#ifndef __SANITIZE_ADDRESS__

namespace {
thread_local std::size_t allocations = 0;
}

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace moetune;

TEST_CASE("no kernel's launcher allocates while it fills a plan") {
  DeviceLimits limits;
  limits.compute_capability = 90;
  limits.sm_count = 132;
  limits.shared_per_block = 232448;
  limits.shared_per_sm = 233472;
  limits.registers_per_sm = 65536;
  limits.threads_per_sm = 2048;
  limits.l2_bytes = 50 << 20;
  std::vector<const Kernel*> kernels = all_kernels();
  std::vector<std::unique_ptr<const Kernel>> described;
  for (const char* name : {"softmax", "matmul"}) {
    described.push_back(testing::example(name));
    kernels.push_back(described.back().get());
    add_resource("spaces/" + std::string(name) + ".json", testing::example_text(name));
  }
  for (const Kernel* kernel : kernels) {
    CAPTURE(kernel->name());
    const Problem problem = kernel->parse("");
    const std::string file = "spaces/" + kernel->name() + ".json";
    const LegalSpace legal = Space::parse(read_resource(file), file).enumerate(expression_environment(problem, limits));
    const Extents extents = kernel->extents_of(problem);
    const Call call = kernel->default_call(problem);
    REQUIRE(legal.size() > 0);
    for (ConfigId id = 0; id < legal.size(); id += 1 + static_cast<ConfigId>(legal.size() / 50)) {
      const auto launcher = kernel->launcher(legal.config(id), problem, limits);
      LaunchPlan plan;
      const std::size_t before = allocations;
      launcher->plan(extents, call, plan);
      const std::size_t made = allocations - before;
      CHECK(made == 0);
      CHECK(!plan.launches.empty());
    }
  }
  CHECK(allocations > 0);  // they are counted
}

// A server allocates a workspace before it has seen a call (moetune_family_workspace).
TEST_CASE("no kernel's launch needs more scratch than the same launch of an empty call, and counters begin at 0") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  std::set<std::string> cleared, left;
  for (const Kernel* kernel : all_kernels()) {
    std::vector<std::string> texts = {""};
    for (const Preset& preset : kernel->presets()) texts.push_back(preset.name);
    for (const std::string& name : texts) {
      CAPTURE(kernel->name());
      CAPTURE(name);
      const auto preset = std::ranges::find(kernel->presets(), name, &Preset::name);
      const Problem problem = kernel->parse("", preset == kernel->presets().end() ? nullptr : &*preset);
      const LegalSpace legal = shared_space(kernel->name()).enumerate(expression_environment(problem, limits));
      const Extents extents = kernel->extents_of(problem);
      for (ConfigId id = 0; id < legal.size(); id += 1 + static_cast<ConfigId>(legal.size() / 20)) {
        const auto launcher = kernel->launcher(legal.config(id), problem, limits);
        LaunchPlan known, unknown;
        launcher->plan(extents, kernel->default_call(problem), known);
        launcher->plan(extents, Call{}, unknown);
        REQUIRE(known.scratch.size() == unknown.scratch.size());
        for (std::size_t i = 0; i < known.scratch.size(); ++i) {
          CHECK(known.scratch[i].bytes <= unknown.scratch[i].bytes);
          (known.scratch[i].zeroed ? cleared : left).insert(kernel->name() + " " + known.scratch[i].name.text());
        }
      }
    }
  }
  const auto listed = [](const std::set<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += name + "\n";
    return text;
  };
  CHECK(listed(cleared) ==
        "decode_attention counters\ngate_route states\nmoe_experts counters\nprefill_attention counter\n"
        "route_plan route_plan_state\nrouter block_counts\nrouter router_state\n");
  CHECK(listed(left) ==  // block_counts of blocks that wait for each other are counters
        "decode_attention partial_lse\ndecode_attention partial_o\nmla_decode led_items\nmla_decode partial_lse\n"
        "mla_decode partial_o\n"
        "moe_experts between\nmoe_experts products\nroute_plan block_counts\nrouter block_counts\n");
}

#endif
