// How the work of a launch falls to blocks, as decode_attention says it.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "kernels/decode_attention_problem.h"
#include "templates/decode_attention/spans.cuh"
#include "tests/kernels/decode_attention_fixture.h"

namespace moetune::decode_attention_loads_test {
using namespace decode_attention_tests;

namespace {

constexpr const char* kHeads = "q_heads=32,kv_heads=4,page=64,";
constexpr double kTileBytes = 128 * 128 * 2 * 2;  // 128 tokens of K and V, bf16

DeviceLimits limits() { return limits_of_architecture("sm_90a"); }

// Blocks of 16 rows over tiles of so many tokens, in a ring of two stages.
std::vector<BlockLoads> loads_at(const Problem& at, const std::string& values, int tile) {
  return kernel().block_loads(
      space().parse_config("body=tma,math=mma16,warps=4,stages=2,producers=1,row_tiles=1,query=registers,"
                           "l2=evict_first,ahead=0,tile=" +
                           std::to_string(tile) + "," + values),
      at, limits());
}

std::vector<BlockLoads> loads_of(const std::string& of, const std::string& values) {
  return loads_at(problem(kHeads + of), values, 128);
}

std::string grid(int splits) {
  return "schedule=grid,residents=0,splits=" + std::to_string(splits) +
         ",combine=" + (splits == 1 ? "none" : "kernel");
}

std::string persistent(int residents) {
  return "schedule=persistent,residents=" + std::to_string(residents) + ",splits=1,combine=last_cta";
}

double bytes_of(const BlockLoads& loads) {
  return std::accumulate(loads.runs.begin(), loads.runs.end(), 0.0,
                         [](double sum, const BlockLoads::Run& run) {
                           return sum + static_cast<double>(run.blocks) * run.bytes;
                         });
}

std::int64_t blocks_of(const BlockLoads& loads) {
  return std::accumulate(loads.runs.begin(), loads.runs.end(), std::int64_t{0},
                         [](std::int64_t sum, const BlockLoads::Run& run) { return sum + run.blocks; });
}

// Tiles of all heads and sequences.
std::int64_t tiles_of(const std::string& of, std::int64_t least) {
  std::int64_t tiles = 0;
  const DecodeShape shape(problem(kHeads + of));
  for (const std::int64_t length : shape.lengths()) tiles += std::max(least, (length + 127) / 128);
  return shape.kv_heads * tiles;
}

using Runs = std::vector<BlockLoads::Run>;

}  // namespace

TEST_CASE("blocks of a grid take tiles in turn: the first splits of a sequence have one more") {
  const std::vector<BlockLoads> loads = loads_of("batch=2,context=1153", grid(4));  // 10 tiles
  REQUIRE(loads.size() == 1);
  CHECK(loads[0].runs ==
        Runs{{8, 3 * kTileBytes}, {8, 2 * kTileBytes}, {8, 3 * kTileBytes}, {8, 2 * kTileBytes}});
  CHECK(loads_of("batch=2,context=1024", grid(4))[0].runs == Runs{{32, 2 * kTileBytes}});
  CHECK(loads_of("batch=2,context=256", grid(3))[0].runs ==
        Runs{{8, kTileBytes}, {4, 0}, {8, kTileBytes}, {4, 0}});
}

TEST_CASE("every head of a KV head's rows that blocks do not share reads the tiles again") {
  const auto loads = [&](int row_tiles) {
    return kernel().block_loads(
        space().parse_config(
            "body=tma,math=mma16,schedule=grid,residents=0,tile=64,warps=4,stages=2,producers=1,"
            "row_tiles=" +
            std::to_string(row_tiles) + ",query=shared,l2=evict_first,splits=1,combine=none,ahead=0"),
        problem("q_heads=128,kv_heads=4,batch=3,context=640"), limits());
  };
  CHECK(blocks_of(loads(1)[0]) == 2 * blocks_of(loads(2)[0]));
  CHECK(bytes_of(loads(1)[0]) == 2 * bytes_of(loads(2)[0]));
}

TEST_CASE("a window leaves the tiles that some query sees; narrow KV has half of the bytes") {
  const auto bytes = [](const std::string& of) {
    return bytes_of(loads_of("batch=3," + of, grid(1))[0]) / kTileBytes / 12;
  };
  CHECK(bytes("context=4096") == 32);
  CHECK(bytes("context=4096,window=256") == 2);
  CHECK(bytes("context=4096,window=257") == 3);
  CHECK(bytes("context=4096,window=256,q_len=2") == 3);
  CHECK(bytes("context=100,window=256") == 1);
  CHECK(bytes("context=4096,kv_dtype=e4m3") == 16);
}

TEST_CASE("a window's first tile begins at a page, or at a tile within it, as the template has it") {
  for (const std::string& schedule : {grid(1), grid(3), persistent(1)}) {
    CAPTURE(schedule);
    const auto tiles = [&](int page, const std::string& of, int tile = 128) {
      const Problem at = problem("q_heads=32,kv_heads=4,batch=3,page=" + std::to_string(page) + "," + of);
      return bytes_of(loads_at(at, schedule, tile)[0]) / (kTileBytes * tile / 128) / 12;
    };
    CHECK(tiles(64, "context=587,window=128") == 2);  // tokens 448 to 586, of which 459 is the first to count
    CHECK(tiles(64, "context=4100,window=256") == 3);  // 3840 to 4099
    CHECK(tiles(64, "context=4160,window=256") == 2);  // 3904 to 4159
    CHECK(tiles(128, "context=4225,window=256") == 3);
    CHECK(tiles(1, "context=4100,window=256") == 2);
    CHECK(tiles(0, "context=4100,window=256") == 2);
    CHECK(tiles(64, "context=1030,window=100", 16) == 7);  // 928 to 1029
  }
}

TEST_CASE("a persistent grid has the template's spans, in whatever order sequences are") {
  for (const char* const of : {"batch=9,context=5000,lengths=ragged", "batch=3,context=700,lengths=ragged"}) {
    for (const int residents : {1, 2}) {
      CAPTURE(of);
      const std::vector<BlockLoads> loads = loads_of(of, persistent(residents));
      REQUIRE(loads.size() == 1);
      CHECK(loads[0].resident == residents);
      const int blocks = residents * limits().sm_count;
      CHECK(blocks_of(loads[0]) == blocks);
      const auto tiles = static_cast<int>(tiles_of(of, 1));  // an empty sequence counts one
      CHECK(bytes_of(loads[0]) == tiles * kTileBytes);
      const Spans spans(tiles, blocks);
      Runs expected;
      for (int block = 0; block < blocks; ++block) {
        const double bytes = (spans.end(block) - spans.begin(block)) * kTileBytes;
        if (expected.empty() || expected.back().bytes != bytes) expected.push_back({0, bytes});
        ++expected.back().blocks;
      }
      CHECK(loads[0].runs == expected);
    }
  }
}

TEST_CASE("sequences of different lengths come in several orders, always the same") {
  const std::string of = "batch=7,context=9000,lengths=ragged";
  const std::vector<BlockLoads> loads = loads_of(of, grid(3));
  CHECK(loads == loads_of(of, grid(3)));
  REQUIRE(loads.size() == 4);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    CHECK(bytes_of(loads[i]) == static_cast<double>(tiles_of(of, 0)) * kTileBytes);
    CHECK(blocks_of(loads[i]) == 7 * 4 * 3);
    for (std::size_t j = 0; j < i; ++j) CHECK(loads[i].runs != loads[j].runs);
  }
  CHECK(loads_of("batch=7,context=9000", grid(3)).size() == 1);
}

TEST_CASE("an SM holds the blocks that fit its shared memory and threads") {
  const auto resident = [](const std::string& values, const std::string& of = "batch=300,context=2048") {
    return kernel()
        .block_loads(
            space().parse_config("body=tma,math=mma16,schedule=grid,residents=0,producers=1,row_tiles=1,"
                                 "query=registers,l2=evict_first,splits=1,combine=none,ahead=0," +
                                 values),
            problem(kHeads + of), limits())[0]
        .resident;
  };
  CHECK(resident("tile=64,warps=4,stages=2") == 3);   // 64 KiB and little more each
  CHECK(resident("tile=128,warps=4,stages=2") == 1);  // 128 KiB
  CHECK(resident("tile=16,warps=8,stages=2", "batch=300,context=2048,head_dim=64") == 7);  // 288 threads
}

TEST_CASE("kernels that do not say how their work falls to blocks have no loads") {
  const Kernel& router = find_kernel("router");
  const Problem at = checked_problem("router", "tokens=64");
  const Config config = *shared_space("router").default_config(expression_environment(at, limits()));
  CHECK(router.block_loads(config, at, limits()).empty());
}

}  // namespace moetune::decode_attention_loads_test
