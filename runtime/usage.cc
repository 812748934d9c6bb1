#include "runtime/usage.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <type_traits>

namespace moetune {
namespace {

std::atomic<std::size_t> next_shard{0};
thread_local const std::size_t my_shard = next_shard.fetch_add(1, std::memory_order_relaxed);

std::int64_t rounded_up(std::int64_t value) {
  if (value <= 16) return value;
  const int drop = std::bit_width(static_cast<std::uint64_t>(value - 1)) - 3;
  return (((value - 1) >> drop) + 1) << drop;
}

std::size_t hash_of(const Extents& extents, bool ragged) {
  std::uint64_t hash = ragged ? 0x9e3779b97f4a7c15 : 0;
  for (const std::int64_t extent : extents) hash = (hash ^ static_cast<std::uint64_t>(extent)) * 0xff51afd7ed558ccd;
  return static_cast<std::size_t>(hash >> 32);
}

}  // namespace

Extents a_step_less(const Extents& extents) {
  Extents less;
  for (const std::int64_t extent : extents) {
    const std::int64_t step =
        extent <= 16 ? 0 : std::int64_t{1} << (std::bit_width(static_cast<std::uint64_t>(extent - 1)) - 3);
    less.push_back(extent - step);
  }
  return less;
}

Usage::Usage()
    : shards_(std::make_unique<std::array<Shard, kShards>>()),
      shapes_(std::allocator<Shape>().allocate(kShards * kShapes)) {}

std::size_t Usage::own_shard() { return my_shard % kShards; }

void Usage::remember(std::size_t own, const Extents& given, bool ragged) {
  static_assert(std::is_trivially_destructible_v<Shape>);
  Shard& shard = (*shards_)[own];
  const std::span<Shape> shapes = shapes_of(own);
  Extents extents;
  for (const std::int64_t extent : given) extents.push_back(rounded_up(extent));
  // Another thread only holds this for a moment; what it would delay is a count.
  if (shard.busy.test_and_set(std::memory_order_acquire)) return;
  if (!shard.has_shapes) std::uninitialized_value_construct(shapes.begin(), shapes.end());
  shard.has_shapes = true;
  const std::size_t start = hash_of(extents, ragged);
  Shape* place = &shapes[start % kShapes];  // of this shape, else the rarest of its places, first an empty one
  bool known = false;
  for (std::size_t probe = 0; probe < kProbes && !known; ++probe) {
    Shape& shape = shapes[(start + probe) % kShapes];
    known = shape.rank > 0 && shape.ragged == ragged && shape.extents == extents;
    if (known || shape.rank < place->rank) place = &shape;
    if (shape.rank == 0) break;
  }
  if (!known) *place = {extents, ragged, place->rank, place->rank};
  ++place->rank;
  shard.busy.clear(std::memory_order_release);
}

UsageCounts Usage::counts() const {
  std::array<std::uint64_t, kKinds> sums{};
  for (const Shard& shard : *shards_) {
    for (std::size_t kind = 0; kind < kKinds; ++kind) sums[kind] += shard.counts[kind].load(std::memory_order_relaxed);
  }
  return {sums[0], sums[1], sums[2], sums[3], sums[kMiss], sums[kLaunch]};
}

std::vector<MissedShape> Usage::missed() const {
  std::map<std::pair<std::vector<std::int64_t>, bool>, MissedShape> merged;
  for (std::size_t i = 0; i < kShards; ++i) {
    Shard& shard = (*shards_)[i];
    while (shard.busy.test_and_set(std::memory_order_acquire)) {
    }
    for (const Shape& shape : shard.has_shapes ? shapes_of(i) : std::span<Shape>()) {
      if (shape.rank == 0) continue;
      MissedShape& sum = merged[{{shape.extents.begin(), shape.extents.end()}, shape.ragged}];
      sum.extents = shape.extents;
      sum.ragged = shape.ragged;
      sum.count += shape.rank - shape.inherited;
    }
    shard.busy.clear(std::memory_order_release);
  }
  std::vector<MissedShape> all;
  for (const auto& [key, shape] : merged) all.push_back(shape);
  std::ranges::stable_sort(all, [](const MissedShape& a, const MissedShape& b) { return a.count > b.count; });
  return all;
}

}  // namespace moetune
