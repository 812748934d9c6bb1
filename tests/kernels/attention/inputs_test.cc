#include "kernels/attention/inputs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

using namespace moetune;

TEST_CASE("pages in use come in order, each once, however the table shuffles them") {
  std::mt19937_64 random(3);
  const std::vector<Range> visible = {{0, 100}, {5, 40}, {0, 0}, {0, 1}};
  const std::int64_t page = 16, stride = 9, blocks = 20;
  const PagePool pool = fill_pages("a test", visible, page, blocks, stride, random);
  REQUIRE(pool.table.size() == visible.size() * stride);
  CHECK(std::ranges::is_sorted(pool.used, {}, &Range::begin));
  CHECK(static_cast<std::int64_t>(pool.used.size()) == pages_touched(visible, page));
  std::int64_t tokens = 0;
  std::set<std::int64_t> pages;
  for (const Range& used : pool.used) {
    tokens += used.count;
    CHECK(used.begin / page == (used.begin + used.count - 1) / page);
    CHECK(pages.insert(used.begin / page).second);
    CHECK(std::ranges::count(pool.table, static_cast<std::int32_t>(used.begin / page)) == 1);
  }
  CHECK(tokens == 141);
  CHECK_FALSE(std::ranges::is_sorted(pool.table.begin(), pool.table.begin() + 7));  // or nothing is shuffled
}

TEST_CASE("what is used of whole pages, and of pages in part, is all that is not poison") {
  // Two KV heads of 4 elements, pages of 8 tokens; a whole page, and tokens 2 to 4 of the last one.
  KvTensors kv;
  kv.heads = 2;
  kv.head_dim = 4;
  kv.tokens = 8;
  kv.blocks = 3;
  kv.k = kv.v = {.block = 64, .head = 32, .token = 4};
  const std::vector<Buffer> made = kv_buffers(kv, {{8, 8}, {18, 3}}, 1);
  REQUIRE(made.size() == 2);
  for (const Buffer& buffer : made) {
    std::vector<bool> poisoned(static_cast<std::size_t>(buffer.elements));
    for (const Range& range : buffer.fill.poison) {
      for (std::int64_t i = range.begin; i < range.begin + range.count; ++i)
        poisoned.at(static_cast<std::size_t>(i)) = true;
    }
    for (std::size_t i = 0; i < poisoned.size(); ++i) {
      const std::size_t block = i / 64, token = i % 32 / 4;
      const bool is_used = block == 1 || (block == 2 && token >= 2 && token < 5);
      CHECK(poisoned[i] == !is_used);
    }
  }
}
