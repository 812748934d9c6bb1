// The part of Cache that stores range tables.
#include "cache/ranges.h"

#include <algorithm>
#include <tuple>

#include "base/digest.h"
#include "base/utf8.h"
#include "cache/cache_impl.h"
#include "cache/history.h"
#include "cache/pack_rows.h"

namespace moetune {
namespace {

std::int64_t find_range(const Database& database, const RangeKey& key, std::int64_t hardware) {
  Query row = database.query(
      "SELECT id FROM ranges WHERE kernel = ? AND family = ? AND hardware = ? AND source_digest = ?"
      " AND toolchain = ? AND timing = ?",
      key.kernel, key.family, hardware, key.source_digest, key.toolchain,
      std::string(timing_name(key.timing)));
  return row.step() ? row.integer(0) : 0;
}

// "" if there is none.
std::string table_of(const Database& database, std::int64_t range) {
  Query row = database.query("SELECT plan FROM ranges WHERE id = ?", range);
  return row.step() ? row.text(0) : "";
}

// The order of tables in a merge: by merit, then by contents.
struct RangeRank {
  RangeMerit merit;
  std::string stored_at, digest;

  bool is_before(const RangeRank& other, MergeOrder order) const {
    const bool by_date = order == MergeOrder::later && merit.contended == other.merit.contended;
    if (by_date && stored_at != other.stored_at) return stored_at > other.stored_at;
    return std::tie(merit, digest) < std::tie(other.merit, other.digest);
  }
};

RangeRank rank_of(const FamilyRange& range, const RecordRules& rules) {
  DigestBuilder builder;
  builder.add(range.table).add(range.stored_at).add(range.provenance);
  for (const FamilyRange::Variant& variant : range.variants)
    builder.add(variant.config).add(variant.interface).add(variant.cubin_digest);
  return {rules.range_merit ? rules.range_merit(range.table) : RangeMerit{}, range.stored_at,
          builder.finish()};
}

std::vector<FamilyRange::Variant> variants_of(const Database& database, std::int64_t range) {
  std::vector<FamilyRange::Variant> variants;
  Query row = database.query(
      "SELECT v.config, v.interface, c.digest, c.id FROM range_cubins v JOIN cubins c ON c.id = v.cubin"
      " WHERE v.range = ? ORDER BY v.number",
      range);
  while (row.step()) variants.push_back({row.text(0), row.text(1), row.text(2), row.integer(3)});
  return variants;
}

// The columns of range_of().
#define SELECT_RANGES                                                                                \
  "SELECT g.id, g.source_digest, g.toolchain, g.plan, g.stored_at, h.name, h.compute_capability,"    \
  " h.sm_count, h.l2_bytes, h.memory_bytes, h.sm_clock_khz, h.memory_clock_khz, h.origin, h.driver," \
  " g.kernel, g.family, g.timing, g.provenance FROM ranges g JOIN hardware h ON h.id = g.hardware "
#define SOUND_RANGE "g.digest = " MOETUNE_RANGE_DIGEST " AND h.digest = " MOETUNE_HARDWARE_DIGEST
#define LATEST_RANGE_FIRST " ORDER BY g.stored_at DESC, g.id DESC"

FamilyRange range_of(const Database& database, const Query& row) {
  FamilyRange found{.key = {row.text(14), row.text(15), {}, row.text(1), row.text(2)}, .table = row.text(3)};
  found.stored_at = row.text(4);
  found.key.hardware = {
      row.text(5),    static_cast<int>(row.integer(6)),  static_cast<int>(row.integer(7)),  row.integer(8),
      row.integer(9), static_cast<int>(row.integer(10)), static_cast<int>(row.integer(11)), row.text(12),
      row.text(13)};
  found.key.timing = stored_timing(row.text(16));
  found.provenance = row.text(17);
  found.id = row.integer(0);
  found.variants = variants_of(database, row.integer(0));
  return found;
}

std::string why_unsound(const FamilyRange& range, const RecordRules& rules) {
  return rules.range ? rules.range(range) : "";
}

}  // namespace

std::string place_of(const FamilyRange& range) {
  return "range table " + std::to_string(range.id) + " (" +
         to_utf8(range.key.kernel + " " + range.key.family) + ")";
}

void Cache::Impl::store_range(const RangeKey& key, const RangeRecord& record, const std::string& reason) {
  const std::int64_t on = hardware(key.hardware);
  const std::int64_t known = find_range(database, key, on);
  const std::string before = table_of(database, known);
  if (!before.empty() && before != record.table && own_tables[known] != before) keep_range(known, reason);
  database.run(
      "INSERT INTO ranges (kernel, family, hardware, source_digest, toolchain, timing, plan, progress, stored_at,"
      " provenance, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?9, ?6, ?7, coalesce(nullif(?8, ''),"
      " strftime('%Y-%m-%dT%H:%M:%SZ', 'now')), ?10, '')"
      " ON CONFLICT (kernel, family, hardware, source_digest, toolchain, timing) DO UPDATE SET plan = excluded.plan,"
      " progress = excluded.progress, stored_at = excluded.stored_at, provenance = excluded.provenance",
      key.kernel, key.family, on, key.source_digest, key.toolchain, record.table, record.progress,
      record.stored_at, std::string(timing_name(key.timing)), record.provenance);
  const std::int64_t range = find_range(database, key, on);
  if (before != record.table) own_tables[range] = record.table;
  database.run("DELETE FROM range_cubins WHERE range = ?", range);
  std::int64_t number = 0;
  for (const StoredLaunch& variant : record.variants) {
    database.run("INSERT INTO range_cubins (range, number, config, interface, cubin) VALUES (?, ?, ?, ?, ?)",
                 range, number++, variant.config, variant.interface, store_cubin(variant));
  }
  database.run("UPDATE ranges AS g SET digest = " MOETUNE_RANGE_DIGEST " WHERE id = ?", range);
}

void Cache::put_range(const RangeKey& key, const RangeRecord& record) {
  WriteTransaction transaction(impl_->database);
  impl_->store_range(key, record, kReplacedSearch);
  impl_->database.run(kDropUnusedCubins);
  transaction.commit();
}

std::string Cache::range_progress(const RangeKey& key) const {
  const std::optional<std::int64_t> hardware = impl_->find_hardware(key.hardware);
  if (!hardware) return "";
  Query row =
      impl_->database.query("SELECT progress FROM ranges g WHERE id = ? AND digest = " MOETUNE_RANGE_DIGEST,
                            find_range(impl_->database, key, *hardware));
  return row.step() ? row.text(0) : "";
}

bool Cache::is_range_damaged(const RangeKey& key) const {
  const std::optional<std::int64_t> hardware = impl_->find_hardware(key.hardware);
  if (!hardware) return false;
  Query row = impl_->database.query("SELECT g.digest = " MOETUNE_RANGE_DIGEST " FROM ranges g WHERE id = ?",
                                    find_range(impl_->database, key, *hardware));
  return row.step() && row.integer(0) == 0;
}

std::vector<FamilyRange> Cache::family_ranges(const std::string& kernel, const std::string& family) const {
  std::vector<FamilyRange> all;
  Query row = impl_->database.query(SELECT_RANGES
                                    "WHERE g.kernel = ? AND g.family = ? AND " SOUND_RANGE LATEST_RANGE_FIRST,
                                    kernel, family);
  while (row.step()) all.push_back(range_of(impl_->database, row));
  if (impl_->pack) require_manifest(impl_->database, *impl_->pack, kernel, family, {{}, all.size()});
  std::erase_if(all, [&](const FamilyRange& range) {
    return range.table.empty() || !why_unsound(range, impl_->rules).empty();
  });
  return all;
}

std::vector<FamilyRange> Cache::Impl::read_ranges() const {
  std::vector<FamilyRange> all;
  Query row = database.query(SELECT_RANGES "WHERE g.plan <> '' AND " SOUND_RANGE LATEST_RANGE_FIRST);
  while (row.step()) all.push_back(range_of(database, row));
  return all;
}

std::vector<FamilyRange> Cache::ranges() const {
  std::vector<FamilyRange> all = impl_->read_ranges();
  std::erase_if(all, [&](const FamilyRange& range) { return !why_unsound(range, impl_->rules).empty(); });
  return all;
}

std::vector<DamagedRange> Cache::damaged_ranges() const {
  std::vector<DamagedRange> damaged;
  Query row =
      impl_->database.query(SELECT_RANGES "WHERE g.plan <> '' AND NOT (" SOUND_RANGE ")" LATEST_RANGE_FIRST);
  while (row.step()) damaged.push_back({range_of(impl_->database, row), "it does not match its digest"});
  for (FamilyRange& range : impl_->read_ranges()) {
    std::string wrong = why_unsound(range, impl_->rules);
    if (!wrong.empty()) damaged.push_back({std::move(range), std::move(wrong)});
  }
  return damaged;
}

RangeRecord Cache::range_record(const FamilyRange& range) const {
  RangeRecord record{.table = range.table,
                     .progress = "",
                     .variants = {},
                     .stored_at = range.stored_at,
                     .provenance = range.provenance};
  for (const FamilyRange::Variant& variant : range.variants)
    record.variants.push_back({variant.config, "", variant.interface, cubin(variant.cubin)});
  return record;
}

std::int64_t Cache::take_ranges(const Cache& from, const RecordRules& rules, MergeOrder order) {
  std::int64_t taken = 0;
  const std::vector<FamilyRange> ours = ranges();
  for (const FamilyRange& theirs : from.ranges()) {
    const auto own = std::ranges::find(ours, theirs.key, &FamilyRange::key);
    if (own != ours.end() && !rank_of(theirs, rules).is_before(rank_of(*own, rules), order)) continue;
    RangeRecord record = from.range_record(theirs);
    record.progress = range_progress(theirs.key);  // what a search here has measured stays measured
    impl_->store_range(theirs.key, record, kReplacedMerge);
    ++taken;
  }
  return taken;
}

}  // namespace moetune
