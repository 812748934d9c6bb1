// The math of prefill_attention, its masks, schedules and splits: each is right, and with a bug planted in its template
// it is rejected.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/resources.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/planted_bug.h"

namespace moetune {
namespace {

constexpr const char* kWgmma =
    "body=wgmma,warpgroups=2,tile=64,stages=2,query_stages=1,packed=0,overlap=1,ping_pong=1,lag=0,poly=0,trim=0,"
    "schedule=grid,cluster=1,section=0,splits=1";
constexpr const char* kMma =
    "body=mma,warpgroups=2,tile=64,stages=2,query_stages=1,packed=0,overlap=0,ping_pong=0,lag=0,poly=0,trim=0,"
    "schedule=grid,cluster=1,section=0,splits=1";
constexpr const char* kPrompt = "batch=2,q_heads=8,kv_heads=2,seqlen_q=300,seqlen_kv=300";
constexpr const char* kChunk = "batch=2,q_heads=8,kv_heads=2,seqlen_q=70,seqlen_kv=600";

// A bug, and what its configuration changes of kWgmma or kMma.
struct PrefillBug {
  const char* base;
  PlantedBug bug;
};

const std::vector<PrefillBug> kPrefillBugs = {
    // A token sees the one behind it.
    {kWgmma,
     {kPrompt, "", "work.cuh", "min_of(kv_length, position(token) + 1)", "min_of(kv_length, position(token) + 2)"}},
    // One token more than the window holds is seen.
    {kMma,
     {"batch=2,q_heads=8,kv_heads=2,seqlen_q=300,seqlen_kv=300,window=40", "", "work.cuh",
      "position(token) - kWindow + 1", "position(token) - kWindow"}},
    // O is not rescaled if the maximum rises.
    {kWgmma, {kChunk, "", "attend.cuh", "output_[j][i] *= factor_[i / 2];", ";"}},
    // The denominator is not.
    {kMma, {kChunk, "", "attend.cuh", "sum_[half] *= factor_[half];", ";"}},
    // Every step of 16 tokens multiplies the first 16 of V.
    {kWgmma, {kPrompt, "overlap=0", "attend.cuh", ": step * 2048;", ": 0;"}},
    {kMma, {kPrompt, "", "attend_mma.cuh", "+ step * 2048 + tall_row_", "+ tall_row_"}},
    // Exponentials by polynomial are off by up to a quarter.
    {kWgmma, {kPrompt, "poly=4", "attend.cuh", "0.69326099f", "0.19326099f"}},
    // The wrong half of a last tile is scored.
    {kWgmma,
     {kPrompt, "tile=128,trim=1", "body_wgmma.cuh", "wgmma_forget(keys))", "wgmma_forget(keys + kFewTokens * 128))"}},
    // Half of a last tile is scored, though rows see more: all of it, or one token more than half.
    {kWgmma, {kPrompt, "tile=128,trim=1", "attend.cuh", "tile * kTile + kFewTokens", "tile * kTile + kTile"}},
    {kWgmma,
     {"batch=2,q_heads=8,kv_heads=2,seqlen_q=100,seqlen_kv=101", "tile=128,trim=1", "attend.cuh",
      "tile * kTile + kFewTokens", "tile * kTile + kFewTokens + 1"}},
    // The sink takes no part of the probability.
    {kWgmma,
     {"batch=2,q_heads=8,kv_heads=2,seqlen_q=30,seqlen_kv=30,sinks=learned", "warpgroups=1,ping_pong=0", "attend.cuh",
      "+ exp2_fast(sink - top + kShift)", ""}},
    // The heads of a token are taken for tokens.
    {kWgmma, {kPrompt, "packed=1", "attend.cuh", "row(half) / kHeadsInRows", "row(half)"}},
    // Every section begins with the first pair.
    {kWgmma,
     {kPrompt, "schedule=dynamic,section=1", "schedule.cuh", "first_pair + within % heads / kHeadTiles",
      "within % heads / kHeadTiles"}},
    // A persistent block leaves out every second of its tiles.
    {kWgmma,
     {"batch=16,q_heads=16,kv_heads=2,seqlen_q=300,seqlen_kv=300", "schedule=static", "schedule.cuh",
      "index / blocks + 1", "index / blocks + 2"}},
    // What lies behind the last token of a sequence is not cleared.
    {kWgmma, {kPrompt, "", "body_wgmma.cuh", "if (kNarrow || first >= end) return;", "return;"}},
    // All of a sequence's tokens come from its first page.
    {kWgmma,
     {"batch=2,q_heads=8,kv_heads=2,seqlen_q=70,seqlen_kv=600,page=16", "", "load.cuh",
      "pages[token / max_of(1, kPage)]", "pages[0]"}},
    // Both units that a lane widens land in the place of the first.
    {kWgmma,
     {"batch=2,q_heads=8,kv_heads=2,seqlen_q=300,seqlen_kv=300,kv_dtype=e4m3", "", "widen_rows.cuh", "(first ^ 16)",
      "first"}},
    // Nor is it in tiles of e4m3.
    {kWgmma,
     {"batch=2,q_heads=8,kv_heads=2,seqlen_q=300,seqlen_kv=300,kv_dtype=e4m3", "", "widen.cuh", "kept.all()", "true"}},
    // Values of e4m3 that are transposed: two groups of 16 tokens change places, or what no query sees stays.
    {kWgmma,
     {"batch=2,q_heads=8,kv_heads=2,seqlen_q=300,seqlen_kv=300,kv_dtype=e4m3,q_dtype=e4m3", "", "transpose.cuh",
      "swaps ? second : first;", "first;"}},
    {kWgmma,
     {"batch=2,q_heads=8,kv_heads=2,seqlen_q=300,seqlen_kv=300,kv_dtype=e4m3,q_dtype=e4m3", "", "transpose.cuh",
      "if (!kept.all()) {", "if (false) {"}},
    // Only the first split counts in the denominator.
    {kWgmma,
     {kChunk, "warpgroups=1,ping_pong=0,splits=2", "combine_kernel.cuh", "denominator += weight;",
      "denominator += split == 0 ? weight : 0.0f;"}},
};

Config planted_prefill_config(const PrefillBug& planted, const Problem& problem, const DeviceLimits& limits) {
  const std::string file = "spaces/prefill_attention.json";
  const Space space = Space::parse(read_resource(file), file);
  const Config base = space.parse_config(planted.base, nullptr);
  const Config config = *planted.bug.config == '\0' ? base : space.parse_config(planted.bug.config, &base);
  REQUIRE(space.why_illegal(config, expression_environment(problem, limits), Rules::must) == "");
  return config;
}

Problem planted_prefill_problem(const PrefillBug& planted) {
  const Kernel& kernel = find_kernel("prefill_attention");
  return kernel.parse(planted.bug.problem);
}

}  // namespace

// Needs no GPU.
TEST_CASE("every place where a bug is planted in prefill_attention exists, and its configuration is legal on Hopper") {
  for (const PrefillBug& planted : kPrefillBugs) {
    check_place_exists(find_resource, "prefill_attention", planted.bug);
    planted_prefill_config(planted, planted_prefill_problem(planted), limits_of_architecture("sm_90a"));
  }
}

TEST_CASE("a bug planted in prefill_attention is rejected, and the same configuration without it passes") {
  if (no_gpu()) return;
  const DeviceLimits limits = gpu().info().limits;
  for (const PrefillBug& planted : kPrefillBugs) {
    if (limits.compute_capability != 90 && planted.base == kWgmma) continue;
    const Problem problem = planted_prefill_problem(planted);
    check_rejected(find_kernel("prefill_attention"), problem, planted_prefill_config(planted, problem, limits),
                   planted.bug, find_resource);
  }
}

}  // namespace moetune
