#include <doctest/doctest.h>

#include <random>

#include "kernels/family_interface.h"
#include "kernels/registry.h"

namespace moetune::decode_attention_family_test {

namespace {

const Kernel& kernel() { return find_kernel("decode_attention"); }

Problem problem_of(const std::string& text) { return kernel().parse(text); }

std::unique_ptr<const FamilyInterface> family(const std::string& text) {
  return kernel().family_interface(problem_of(text));
}

}  // namespace

TEST_CASE("a batch is ragged if its contexts fill less than nine tenths of what the longest would") {
  const auto all = family("batch=8,q_heads=32,kv_heads=8,context=4096");
  CHECK_FALSE(all->table_point({8, 8, 4096}, 8 * 4096).ragged);
  CHECK_FALSE(all->table_point({8, 8, 4096}, 8 * 3700).ragged);
  CHECK(all->table_point({8, 8, 4096}, 8 * 3600).ragged);
  CHECK(all->table_point({8, 8, 4096}, 0).ragged);
  CHECK_FALSE(all->table_point({1, 8, 4096}, 0).ragged);
}

TEST_CASE("with a window a batch is even once most sequences are longer than what they see") {
  const auto windowed = family("batch=8,q_heads=64,kv_heads=8,head_dim=64,context=4096,window=128");
  CHECK_FALSE(windowed->table_point({8, 8, 4096}, 8 * 1000).ragged);
  CHECK_FALSE(windowed->table_point({8, 8, 4096}, 0).ragged);
  CHECK(windowed->table_point({8, 8, 4096}, 8 * 200).ragged);
  CHECK(windowed->table_point({8, 8, 128}, 0).ragged);
  const Problem ragged = problem_of("batch=8,q_heads=64,kv_heads=8,head_dim=64,context=4096,window=128,lengths=ragged");
  CHECK_FALSE(windowed->table_point_of(ragged).ragged);
}

TEST_CASE("with a window, contexts of two windows and more lie at one place") {
  const auto windowed = family("batch=8,q_heads=64,kv_heads=8,head_dim=64,context=4096,window=128");
  for (const std::int64_t context : {256, 257, 4096, 131072}) {
    const TablePoint point = windowed->table_point({8, 8, context}, 8 * context);
    CHECK(point.position[1] == 256);
    CHECK(windowed->last_point({8, 8, context}).position[1] == 256);
  }
  CHECK(windowed->table_point({8, 8, 200}, 8 * 200).position[1] == 200);
  CHECK(family("batch=8,q_heads=64,kv_heads=8,head_dim=64,context=4096")->table_point({8, 8, 4096}, 0).position[1] ==
        4096);
}

TEST_CASE("a ragged batch lies where the full batch of its total does, but at no less than a quarter of its own") {
  const auto all = family("batch=8,q_heads=32,kv_heads=8,context=4096");
  const auto rows = [&](std::int64_t batch, std::int64_t total) {
    const TablePoint point = all->table_point({batch, 8, 4096}, total);
    CHECK(point.ragged);
    CHECK(point.position[1] == 4096);
    return point.position[0];
  };
  CHECK(rows(3, 4096) == 8);  // two are empty
  CHECK(rows(3, 2 * 4096) == 2 * 8);
  CHECK(rows(8, 4 * 4096) == 4 * 8);
  CHECK(rows(8, 0) == 4 * 8);  // unknown
  CHECK(rows(8, 4096) == 2 * 8);
  CHECK(rows(256, 1) == 64 * 8);
  CHECK(rows(100, 50 * 4096) == 416);  // 400 rounded up: eight steps an octave
  CHECK(rows(2, 4097) == 8);           // a second sequence of one token
  CHECK(all->table_point({2, 1, 4096}, 3700).position[0] == 1);
  const auto windowed = family("batch=8,q_heads=64,kv_heads=8,head_dim=64,context=4096,window=128");
  CHECK(windowed->table_point({8, 8, 4096}, 4 * 256).position[0] == 4 * 8);
}

TEST_CASE("no batch lies past its family's last point") {
  std::mt19937_64 random(11);
  const auto below = [&](std::int64_t end) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
  };
  for (const char* window : {"0", "128"}) {
    const auto all = family("batch=8,q_heads=64,kv_heads=8,head_dim=64,context=4096,window=" + std::string(window));
    for (int i = 0; i < 20'000; ++i) {
      const Extents most = {below(i % 3 == 0 ? 65535 : 64), below(16), below(1 << (1 + i % 22))};
      const Extents extents = {below(most[0]), below(most[1]), below(most[2])};
      const TablePoint last = all->last_point(most);
      const TablePoint point = all->table_point(extents, i % 5 == 0 ? 0 : below(extents[0] * extents[2]));
      CAPTURE(extents[0]);
      CAPTURE(most[0]);
      CAPTURE(most[1]);
      REQUIRE(point.position[0] >= 1);
      REQUIRE(point.position[0] <= last.position[0]);
      REQUIRE(point.position[1] <= last.position[1]);
    }
  }
}

TEST_CASE("the extents of a place lie there, with the total unknown") {
  const auto all = family("batch=8,q_heads=32,kv_heads=8,context=4096");
  for (const std::int64_t batch : {2, 3, 4, 7, 8, 16, 100, 256}) {
    const TablePoint point = all->table_point({batch, 8, 4096}, 0);
    const Extents extents = all->extents_at(point, {1, 8, 1});
    CHECK(all->table_point(extents, 0).position == point.position);
    CHECK(all->table_point(extents, 0).ragged);
  }
}

}  // namespace moetune::decode_attention_family_test
