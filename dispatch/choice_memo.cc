#include "dispatch/choice_memo.h"

#include <sys/mman.h>

#include <atomic>
#include <new>

namespace moetune {
namespace {

using Word = std::atomic_ref<std::uint64_t>;

std::uint64_t packed(Cell cell) { return std::uint64_t{cell.entry} << 8 | static_cast<std::uint64_t>(cell.kind); }

}  // namespace

// Pages of its own, because an allocator that has such memory left clears all of it.
ChoiceMemo::ChoiceMemo() {
  void* const pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  entries_.reset(static_cast<Entry*>(pages));
}

void ChoiceMemo::Release::operator()(Entry* entries) const { ::munmap(entries, kBytes); }

ChoiceMemo::Key ChoiceMemo::key_of(const TablePoint& point, const Extents& extents) {
  static_assert(Extents::capacity() + decltype(point.position)::capacity() + 1 == std::tuple_size_v<Key>);
  Key key{};
  std::size_t at = 0;
  key[at++] = point.ragged ? 1 : 0;
  for (const std::int64_t position : point.position) key[at++] = static_cast<std::uint64_t>(position);
  for (const std::int64_t extent : extents) key[at++] = static_cast<std::uint64_t>(extent);
  return key;
}

std::uint64_t ChoiceMemo::hash_of(const Key& key) {
  std::uint64_t hash = 0;
  for (const std::uint64_t word : key) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

// A word that was read while it was written comes with a version that has moved on: writers store words after the odd
// version, and readers read the version last.
std::optional<Cell> ChoiceMemo::find(const Key& key) const {
  Entry* const set = set_of(hash_of(key));
  for (std::size_t way = 0; way < kWays; ++way) {
    Entry& entry = set[way];
    const std::uint64_t version = Word(entry.version).load(std::memory_order_acquire);
    if (version == 0 || version % 2 != 0) continue;
    bool is_same = true;
    for (std::size_t i = 0; i < key.size() && is_same; ++i)
      is_same = Word(entry.key[i]).load(std::memory_order_acquire) == key[i];
    if (!is_same) continue;
    const std::uint64_t cell = Word(entry.cell).load(std::memory_order_acquire);
    if (Word(entry.version).load(std::memory_order_relaxed) != version) continue;
    return Cell{static_cast<std::uint32_t>(cell >> 8), static_cast<ChoiceKind>(cell & 0xff)};
  }
  return std::nullopt;
}

void ChoiceMemo::keep(const Key& key, Cell cell) const {
  const std::uint64_t hash = hash_of(key);
  Entry* const set = set_of(hash);
  Entry* place = set + (hash >> 40) % kWays;
  for (std::size_t way = kWays; way-- > 0;) {
    if (Word(set[way].version).load(std::memory_order_relaxed) == 0) place = set + way;
  }
  const Word version(place->version);
  std::uint64_t before = version.load(std::memory_order_relaxed);
  if (before % 2 != 0 || !version.compare_exchange_strong(before, before + 1, std::memory_order_acquire)) return;
  for (std::size_t i = 0; i < key.size(); ++i) Word(place->key[i]).store(key[i], std::memory_order_release);
  Word(place->cell).store(packed(cell), std::memory_order_release);
  version.store(before + 2, std::memory_order_release);
}

}  // namespace moetune
