// Enumerates a space of ten million points, about one in a hundred of them legal, with the constraints that a
// tiled matrix kernel has. Prints one line of figures; exits with 1 when one core needs more than two
// seconds.
#include <chrono>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "search/enumerate.h"
#include "search/space.h"

namespace {

constexpr double kLimitSeconds = 2;

constexpr std::string_view kSpace = R"json({
  "kernel": "tiled_matrix",
  "parameters": [
    {"name": "tile_m", "values": [16, 32, 48, 64, 96, 128, 192, 256]},
    {"name": "tile_n", "values": [16, 32, 48, 64, 96, 128, 192, 256]},
    {"name": "tile_k", "values": [16, 32, 64, 96, 128]},
    {"name": "stages", "values": [1, 2, 3, 4, 5, 6, 8]},
    {"name": "warps_m", "values": [1, 2, 3, 4, 6, 8]},
    {"name": "warps_n", "values": [1, 2, 3, 4, 6, 8]},
    {"name": "vector", "values": [2, 4, 8, 16]},
    {"name": "splits", "values": [1, 2, 4, 8, 16, 32]},
    {"name": "loader", "values": ["plain", "cp_async", "tma"], "gates": {"tma": "device.compute_capability >= 90"}},
    {"name": "swizzle", "values": [0, 1]},
    {"name": "producer_warps", "values": [0, 1]}
  ],
  "let": {
    "warps": "warps_m * warps_n",
    "threads": "32 * (warps + producer_warps)",
    "stage_bytes": "(tile_m + tile_n) * tile_k * problem.element_bytes",
    "shared_bytes": "stages * stage_bytes",
    "accumulators": "tile_m * tile_n / (32 * warps)"
  },
  "constraints": [
    {"expr": "tile_m % (16 * warps_m) == 0", "why": "each warp owns whole 16-row fragments"},
    {"expr": "tile_n % (8 * warps_n) == 0", "why": "each warp owns whole 8-column fragments"},
    {"expr": "warps >= 2 && warps <= 16", "why": "a block has 64 to 512 computing threads"},
    {"expr": "shared_bytes <= device.shared_per_block", "why": "the stages fit shared memory"},
    {"expr": "accumulators + (loader == 'plain' ? 32 : 0) <= 160", "why": "the accumulators fit the registers"},
    {"expr": "accumulators >= 16", "why": "less work a thread never pays"},
    {"expr": "tile_k % (vector * warps_n) == 0 || loader == 'tma'", "why": "a row of a tile is whole vectors"},
    {"expr": "stage_bytes % (threads * vector * problem.element_bytes) == 0 || loader == 'tma'",
     "why": "every thread copies the same number of vectors"},
    {"expr": "vector * problem.element_bytes <= 16", "why": "16 bytes are the widest load"},
    {"expr": "loader != 'tma' || vector == 8", "why": "bulk copies have no vector width: one value stands for all"},
    {"expr": "loader == 'plain' ? stages == 1 : stages >= 2", "why": "asynchronous copies need a second buffer"},
    {"expr": "loader == 'tma' || producer_warps == 0", "why": "only bulk copies have a producer warp"},
    {"expr": "problem.k % (tile_k * splits) == 0", "why": "every split has whole tiles"},
    {"expr": "splits == 1 || ceil_div(problem.m, tile_m) * ceil_div(problem.n, tile_n) <= 2 * device.sm_count",
     "why": "splitting pays only where the tiles do not fill the device"}
  ]
})json";

moetune::Assignment environment() {
  moetune::Assignment names;
  names.set("problem.m", moetune::Value::integer(1024));
  names.set("problem.n", moetune::Value::integer(4096));
  names.set("problem.k", moetune::Value::integer(4096));
  names.set("problem.element_bytes", moetune::Value::integer(2));
  names.set("device.compute_capability", moetune::Value::integer(90));
  names.set("device.shared_per_block", moetune::Value::integer(232448));
  names.set("device.sm_count", moetune::Value::integer(132));
  return names;
}

}  // namespace

int main() {
  try {
    const auto begin = std::chrono::steady_clock::now();
    const moetune::Space space = moetune::Space::parse(kSpace, "tiled_matrix.json");
    moetune::EnumerationStats stats;
    const moetune::LegalSpace legal = space.enumerate(environment(), moetune::Rules::all, &stats);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::printf("cartesian %.0f legal %zu (%.2f%%) nodes %llu seconds %.3f order", legal.cartesian_size(),
                legal.size(), 100.0 * static_cast<double>(legal.size()) / legal.cartesian_size(),
                static_cast<unsigned long long>(stats.nodes), seconds);
    for (const std::size_t p : stats.order) std::printf(" %s", legal.parameters()[p].name.c_str());
    std::printf("\n");
    return seconds <= kLimitSeconds ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
