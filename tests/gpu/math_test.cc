// The math of decode_attention, its schedules and ways of combining: each is right, and with a bug planted
// in its template it is rejected.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/resources.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/planted_bug.h"

namespace moetune {
namespace {

constexpr const char* kCommon = ",stages=2,l2=normal,ahead=0";
constexpr const char* kGrid = ",schedule=grid,residents=0";

const std::vector<PlantedBug> kPlantedBugs = {
    // Every step of 16 tokens multiplies the first 16 of V.
    {"batch=2,q_heads=16,kv_heads=2,context=300",
     "body=mma,math=mma16,tile=64,warps=2,producers=0,row_tiles=1,query=registers,splits=2,combine=kernel",
     "attend.cuh", "add_wide(a, v + token_offset(16 * group), lanes)", "add_wide(a, v, lanes)"},
    // One token more than the window holds is seen.
    {"batch=2,q_heads=16,kv_heads=2,context=300,window=40,page=16",
     "body=tma,math=mma16,tile=64,warps=4,producers=1,row_tiles=1,query=shared,splits=1,combine=none", "arguments.cuh",
     "{end - kWindow - token,", "{end - kWindow - 1 - token,"},
    // The sink takes no part of the probability.
    {"batch=2,q_heads=16,kv_heads=2,context=30,sinks=learned",
     "body=mma,math=mma16,tile=64,warps=4,producers=0,row_tiles=1,query=registers,splits=1,combine=none", "combine.cuh",
     "+ exp2_fast(sink - maximum)", ""},
    // Only the first part of a cluster counts in the denominator.
    {"batch=2,q_heads=16,kv_heads=2,context=300",
     "body=tma,math=mma16,tile=64,warps=4,producers=1,row_tiles=1,query=registers,splits=2,combine=cluster",
     "inbox.cuh", "weight += factor;", "weight += split == 0 ? factor : 0.0f;"},
    // The last block, and the second kernel, weigh all parts alike.
    {"batch=2,q_heads=16,kv_heads=2,context=300,lengths=ragged",
     "body=mma,math=swap,tile=64,warps=4,producers=0,row_tiles=1,query=registers,splits=2,combine=last_cta",
     "combine.cuh", "take = exp2_fast(lse - highest)", "take = 1"},
    // A persistent block attends to every segment with the query of the first place.
    {"batch=64,q_heads=32,kv_heads=8,context=300,lengths=ragged",
     "body=tma,math=mma16,tile=64,warps=4,producers=1,row_tiles=1,query=registers,splits=1,combine=kernel,"
     "schedule=persistent,residents=1",
     "body_persistent.cuh", "+ segment.index * kQueryBytes", ""},
    // Tokens 8..15 of every 16 count with the probabilities of 0..7.
    {"batch=2,q_heads=16,kv_heads=2,context=300",
     "body=mma,math=swap,tile=64,warps=4,producers=0,row_tiles=1,query=registers,splits=2,combine=kernel",
     "attend_swap.cuh", "transposed_8x8(Math::pack(p[2], p[3]))", "transposed_8x8(Math::pack(p[0], p[1]))"},
    // O is not rescaled when the maximum rises.
    {"batch=2,q_heads=16,kv_heads=2,context=300",
     "body=tma,math=swap,tile=64,warps=4,producers=1,row_tiles=1,query=shared,splits=2,combine=kernel",
     "column_softmax.cuh", "output_[block][tile][2 + side] *= factor;", ""},
    // Every step of 16 tokens multiplies the first 16 of V.
    {"batch=2,q_heads=32,kv_heads=2,context=300,q_len=4",
     "body=tma,math=wgmma64,tile=64,warps=4,producers=1,row_tiles=4,query=shared,splits=2,combine=kernel",
     "attend_wgmma.cuh", "v + token_offset(16 * group)", "v"},
    // All warps take the rows of the first, so 16 to 63 are never stored.
    {"batch=2,q_heads=32,kv_heads=2,context=300,q_len=4",
     "body=tma,math=wgmma64,tile=64,warps=4,producers=1,row_tiles=4,query=shared,splits=2,combine=kernel",
     "row_softmax.cuh", "kWorkerWarps == 1 ? 0", "true ? 0"},
    // Every step of 16 tokens multiplies the first 16 of P.
    {"batch=2,q_heads=16,kv_heads=2,context=300",
     "body=tma,math=wgmma_swap,tile=64,warps=4,producers=1,row_tiles=1,query=shared,splits=2,combine="
     "kernel",
     "attend_wgmma_swap.cuh", "+ token * 16, kWorkerTokens", ", kWorkerTokens"},
    // The denominator counts the first warp's tokens alone.
    {"batch=2,q_heads=16,kv_heads=2,context=300",
     "body=tma,math=wgmma_swap,tile=64,warps=4,producers=1,row_tiles=1,query=shared,splits=2,combine="
     "kernel",
     "attend_wgmma_swap.cuh", "sum += exchange_.value(other, row)", "sum += exchange_.value(0, row)"},
};

// The templates, but half a power of two is all that the maximum may lag: random inputs hardly ever raise it
// by eight. So some tiles rescale the output and others lag behind.
std::optional<std::string> read_eager(const std::string& path) {
  std::optional<std::string> text = find_resource(path);
  if (path != "templates/decode_attention/shape.cuh") return text;
  const std::string lazy = "kLag = 8.0f";
  const std::size_t where = text.value().find(lazy);
  REQUIRE(where != std::string::npos);
  return text->replace(where, lazy.size(), "kLag = 0.5f");
}

}  // namespace

// Needs no GPU.
TEST_CASE("every place where a bug is planted exists") {
  for (const PlantedBug& bug : kPlantedBugs) check_place_exists(read_eager, "decode_attention", bug);
}

TEST_CASE("a bug planted in any of the math is rejected, and the same configuration without it passes") {
  if (no_gpu()) return;
  const DeviceLimits limits = gpu().info().limits;
  const Kernel& kernel = find_kernel("decode_attention");
  const std::string file = "spaces/decode_attention.json";
  const Space space = Space::parse(read_resource(file), file);
  int rejected = 0;
  for (const PlantedBug& bug : kPlantedBugs) {
    const Problem problem = kernel.parse(bug.problem);
    const std::optional<Config> base = space.default_config(expression_environment(problem, limits));
    REQUIRE(base);
    const std::string config_text = std::string(bug.config) + kCommon;
    const bool persistent = config_text.find("schedule=") != std::string::npos;
    const Config config = space.parse_config(config_text + (persistent ? "" : kGrid), &*base);
    const bool on_hopper_alone = config.is("math", "wgmma64") || config.is("math", "wgmma_swap");
    if (limits.compute_capability < 90 && config.is("body", "tma")) continue;
    if (limits.compute_capability != 90 && on_hopper_alone) continue;
    check_rejected(kernel, problem, config, bug, read_eager);
    ++rejected;
  }
  CHECK(rejected >= 2);
}

}  // namespace moetune
