// The arithmetic by which a persistent grid shares tiles out, compiled for the host from the template's own
// header and walked for every block.
#include "templates/decode_attention/spans.cuh"

#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace {

struct Grid {
  std::vector<int> head_tiles;  // of each sequence
  int heads = 1;
  int blocks = 1;

  int tiles() const { return heads * std::accumulate(head_tiles.begin(), head_tiles.end(), 0); }
};

// The walk of one block, as the device makes it: the sequence of its first tile is looked for first.
Walk start_walk(const Grid& grid, const Spans& spans, int block) {
  Walk walk{};
  int sequence = 0, passed = 0;
  while (spans.begin(block) >= passed + grid.head_tiles[static_cast<std::size_t>(sequence)] * grid.heads) {
    passed += grid.head_tiles[static_cast<std::size_t>(sequence++)] * grid.heads;
  }
  walk.start(spans.begin(block), spans.end(block), sequence, passed,
             grid.head_tiles[static_cast<std::size_t>(sequence)]);
  return walk;
}

struct Segment {
  int block, part, slot, first, tiles;
};

using Items = std::map<std::pair<int, int>, std::vector<Segment>>;  // segments by sequence and head

// Walks every span and checks what one segment says of its item.
Items walk_all(const Grid& grid) {
  const Spans spans(grid.tiles(), grid.blocks);
  Items items;
  for (int block = 0; block < grid.blocks; ++block) {
    if (spans.begin(block) == spans.end(block)) continue;
    for (Walk walk = start_walk(grid, spans, block); !walk.done();) {
      const ItemSplits parts = walk.splits(spans);
      const int part = block - parts.first_block;
      REQUIRE(part >= 0);
      REQUIRE(part < parts.count);
      CHECK(walk.whole() == (parts.count == 1));
      items[{walk.sequence, walk.head}].push_back({block, part, parts.slot(part), walk.tile, walk.segment()});
      if (!walk.advance(grid.heads)) continue;
      if (walk.sequence < static_cast<int>(grid.head_tiles.size())) {
        walk.tiles = grid.head_tiles[static_cast<std::size_t>(walk.sequence)];
      }
    }
  }
  return items;
}

void check_grid(const Grid& grid) {
  const Items items = walk_all(grid);
  REQUIRE(items.size() == grid.head_tiles.size() * static_cast<std::size_t>(grid.heads));
  std::set<int> slots, leaders;
  for (const auto& [item, segments] : items) {
    int covered = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      CHECK(segments[i].part == static_cast<int>(i));
      CHECK(segments[i].first == covered);
      CHECK(segments[i].tiles > 0);
      covered += segments[i].tiles;
    }
    CHECK(covered == grid.head_tiles[static_cast<std::size_t>(item.first)]);
    if (segments.size() == 1) continue;
    CHECK(leaders.insert(segments.front().block).second);  // its counter is no other item's
    for (const Segment& segment : segments) {
      CHECK(segment.slot / 2 == segment.block);
      CHECK(slots.insert(segment.slot).second);
    }
  }
}

}  // namespace

TEST_CASE("spans cover all tiles in order, differ by one tile at most, and know whose a tile is") {
  for (int blocks : {1, 2, 7, 132, 264}) {
    for (int tiles : {1, 2, 6, 7, 8, 131, 132, 133, 264, 1000, 4096}) {
      const Spans spans(tiles, blocks);
      CHECK(spans.begin(0) == 0);
      CHECK(spans.end(blocks - 1) == tiles);
      for (int block = 0; block < blocks; ++block) {
        const int size = spans.end(block) - spans.begin(block);
        CHECK((size == tiles / blocks || size == (tiles + blocks - 1) / blocks));
        for (int tile = spans.begin(block); tile < spans.end(block); ++tile) {
          REQUIRE(spans.block_of(tile) == block);
        }
      }
    }
  }
}

TEST_CASE("every tile is walked once, and no two parts share a slot, nor two items a counter") {
  check_grid({{1}, 1, 132});
  check_grid({{64}, 8, 132});
  check_grid({std::vector<int>(16, 64), 8, 132});
  check_grid({std::vector<int>(256, 1), 4, 132});
  check_grid({{1000, 1, 1, 1}, 2, 132});
  std::mt19937 random(11);
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  for (int round = 0; round < 300; ++round) {
    Grid grid;
    grid.heads = draw(1, 9);
    grid.blocks = draw(1, 140);
    grid.head_tiles.resize(static_cast<std::size_t>(draw(1, 70)));
    const int longest = draw(1, 60);
    for (int& tiles : grid.head_tiles) tiles = draw(0, 3) == 0 ? 1 : draw(1, longest);
    CAPTURE(round);
    check_grid(grid);
  }
}

TEST_CASE("equal work makes equal spans: a ragged batch leaves no block with more than its share") {
  const Grid grid{{4096, 3, 1, 700, 1, 1, 22, 64}, 8, 132};
  std::map<int, int> tiles;
  for (const auto& [item, segments] : walk_all(grid)) {
    for (const Segment& segment : segments) tiles[segment.block] += segment.tiles;
  }
  REQUIRE(tiles.size() == 132);
  for (const auto& [block, count] : tiles) CHECK(count <= grid.tiles() / 132 + 1);
}
