#include "cache/ranges.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "base/utf8.h"
#include "cache/cache_file.h"
#include "cache/cubins.h"
#include "cache/generations.h"
#include "cache/pack_rows.h"

namespace moetune {
namespace {

std::int64_t find_range(const Database& database, const RangeKey& key, std::int64_t hardware) {
  Query row = database.query(
      "SELECT id FROM ranges WHERE kernel = ? AND family = ? AND hardware = ? AND source_digest = ?"
      " AND toolchain = ? AND timing = ?",
      key.kernel, key.family, hardware, key.source_digest, key.toolchain, std::string(timing_name(key.timing)));
  return row.step() ? row.integer(0) : 0;
}

// "" if there is none.
std::string table_of(const Database& database, std::int64_t range) {
  Query row = database.query("SELECT plan FROM ranges WHERE id = ?", range);
  return row.step() ? row.text(0) : "";
}

std::vector<std::int64_t> range_cubins_of(const Database& database, std::int64_t range) {
  std::vector<std::int64_t> cubins;
  Query row = database.query("SELECT cubin FROM range_cubins WHERE range = ?", range);
  while (row.step()) cubins.push_back(row.integer(0));
  return cubins;
}

bool has_range_cubins(const Database& database, std::int64_t range, std::int64_t generation) {
  Query row = database.query(
      "SELECT count(*), count(c.id), coalesce(sum(moetune_unpacked_digest(c.frame, c.bytes) = c.digest), 0)"
      " FROM range_history_cubins v LEFT JOIN cubins c ON c.id = v.cubin WHERE v.range = ? AND v.generation = ?",
      range, generation);
  return row.step() && row.integer(0) == row.integer(1) && row.integer(0) == row.integer(2);
}

std::vector<FamilyRange::Variant> variants_of(const Database& database, std::int64_t range) {
  std::vector<FamilyRange::Variant> variants;
  Query row = database.query(
      "SELECT v.config, v.interface, c.digest FROM range_cubins v JOIN cubins c ON c.id = v.cubin"
      " WHERE v.range = ? ORDER BY v.number",
      range);
  while (row.step()) variants.push_back({row.text(0), row.text(1), row.text(2)});
  return variants;
}

// The columns of range_of().
#define SELECT_RANGES                                                                             \
  "SELECT g.id, g.kernel, g.family, g.source_digest, g.toolchain, g.timing, g.plan, g.stored_at," \
  " g.provenance, " MOETUNE_HARDWARE_COLUMNS " FROM ranges g JOIN hardware h ON h.id = g.hardware "
#define SOUND_RANGE "g.digest = " MOETUNE_RANGE_DIGEST " AND h.digest = " MOETUNE_HARDWARE_DIGEST
#define LATEST_RANGE_FIRST " ORDER BY g.stored_at DESC, g.id DESC"

FamilyRange range_of(const Database& database, const Query& row) {
  return {.key = {row.text(1), row.text(2), hardware_of(row, 9), row.text(3), row.text(4), stored_timing(row.text(5))},
          .table = row.text(6),
          .variants = variants_of(database, row.integer(0)),
          .stored_at = row.text(7),
          .provenance = row.text(8),
          .id = row.integer(0)};
}

std::string why_unsound(const FamilyRange& range, const RecordRules& rules) {
  return rules.range ? rules.range(range) : "";
}

// Adds the table, unless it is damaged or there is none, to its history. Within a transaction.
void keep_range(const Database& database, std::int64_t range, const std::string& reason) {
  database.run(
      "INSERT INTO range_history (range, generation, reason, replaced_at, plan, provenance, stored_at, digest)"
      " SELECT id, (SELECT coalesce(max(generation), 0) + 1 FROM range_history WHERE range = ?1), ?2,"
      " strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), plan, provenance, stored_at, '' FROM ranges g"
      " WHERE id = ?1 AND plan <> '' AND digest = " MOETUNE_RANGE_DIGEST,
      range, reason);
  if (database.changes() == 0) return;
  database.run(
      "INSERT INTO range_history_cubins (range, generation, number, config, interface, cubin)"
      " SELECT range, (SELECT max(generation) FROM range_history WHERE range = ?1), number, config, interface, cubin"
      " FROM range_cubins WHERE range = ?1",
      range);
  database.run("UPDATE range_history AS y SET digest = " MOETUNE_RANGE_HISTORY_DIGEST
               " WHERE range = ?1 AND generation = (SELECT max(generation) FROM range_history WHERE range = ?1)",
               range);
}

}  // namespace

std::string place_of(const FamilyRange& range) {
  return "range table " + std::to_string(range.id) + " (" + to_utf8(range.key.kernel + " " + range.key.family) + ")";
}

void Ranges::put(const RangeKey& key, const RangeRecord& record, const char* reason) {
  const Database& database = file_->database;
  WriteTransaction transaction(database);
  const std::int64_t on = put_hardware(database, key.hardware);
  const std::int64_t known = find_range(database, key, on);
  const std::string before = table_of(database, known);
  if (!before.empty() && before != record.table && own_tables_[known] != before) keep_range(database, known, reason);
  database.run(
      "INSERT INTO ranges (kernel, family, hardware, source_digest, toolchain, timing, plan, progress, stored_at,"
      " provenance, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?9, ?6, ?7, coalesce(nullif(?8, ''),"
      " strftime('%Y-%m-%dT%H:%M:%SZ', 'now')), ?10, '')"
      " ON CONFLICT (kernel, family, hardware, source_digest, toolchain, timing) DO UPDATE SET plan = excluded.plan,"
      " progress = excluded.progress, stored_at = excluded.stored_at, provenance = excluded.provenance",
      key.kernel, key.family, on, key.source_digest, key.toolchain, record.table, record.progress, record.stored_at,
      std::string(timing_name(key.timing)), record.provenance);
  const std::int64_t range = find_range(database, key, on);
  if (before != record.table) own_tables_[range] = record.table;
  const std::vector<std::int64_t> cubins = range_cubins_of(database, range);
  database.run("DELETE FROM range_cubins WHERE range = ?", range);
  std::int64_t number = 0;
  for (const StoredLaunch& variant : record.variants) {
    database.run("INSERT INTO range_cubins (range, number, config, interface, cubin) VALUES (?, ?, ?, ?, ?)", range,
                 number++, variant.config, variant.interface, store_cubin(*file_, variant));
  }
  database.run("UPDATE ranges AS g SET digest = " MOETUNE_RANGE_DIGEST " WHERE id = ?", range);
  drop_unused(database, cubins);
  transaction.commit();
}

std::string Ranges::progress(const RangeKey& key) const {
  const std::optional<std::int64_t> hardware = find_hardware(file_->database, key.hardware);
  if (!hardware) return "";
  Query row = file_->database.query("SELECT progress FROM ranges g WHERE id = ? AND digest = " MOETUNE_RANGE_DIGEST,
                                    find_range(file_->database, key, *hardware));
  return row.step() ? row.text(0) : "";
}

bool Ranges::is_damaged(const RangeKey& key) const {
  const std::optional<std::int64_t> hardware = find_hardware(file_->database, key.hardware);
  if (!hardware) return false;
  Query row = file_->database.query("SELECT g.digest = " MOETUNE_RANGE_DIGEST " FROM ranges g WHERE id = ?",
                                    find_range(file_->database, key, *hardware));
  return row.step() && row.integer(0) == 0;
}

std::vector<FamilyRange> Ranges::of_family(const std::string& kernel, const std::string& family) const {
  std::vector<FamilyRange> all;
  Query row = file_->database.query(
      SELECT_RANGES "WHERE g.kernel = ? AND g.family = ? AND " SOUND_RANGE LATEST_RANGE_FIRST, kernel, family);
  while (row.step()) all.push_back(range_of(file_->database, row));
  if (file_->pack) require_manifest(file_->database, *file_->pack, kernel, family, {{}, all.size()});
  std::erase_if(
      all, [&](const FamilyRange& range) { return range.table.empty() || !why_unsound(range, file_->rules).empty(); });
  return all;
}

std::vector<FamilyRange> Ranges::read() const {
  std::vector<FamilyRange> all;
  Query row = file_->database.query(SELECT_RANGES "WHERE g.plan <> '' AND " SOUND_RANGE);
  while (row.step()) all.push_back(range_of(file_->database, row));
  // Not by SQLite, which would sort whole tables in a file of its own.
  std::ranges::sort(all, std::greater(), [](const FamilyRange& one) { return std::tie(one.stored_at, one.id); });
  return all;
}

std::vector<FamilyRange> Ranges::all() const { return judged().sound; }

std::vector<DamagedRange> Ranges::mismatched() const {
  std::vector<DamagedRange> damaged;
  Query row = file_->database.query(SELECT_RANGES "WHERE g.plan <> '' AND NOT (" SOUND_RANGE ")" LATEST_RANGE_FIRST);
  while (row.step()) damaged.push_back({range_of(file_->database, row), "it does not match its digest"});
  return damaged;
}

JudgedRanges Ranges::judged() const {
  JudgedRanges all{.sound = {}, .damaged = mismatched()};
  for (FamilyRange& range : read()) {
    std::string wrong = why_unsound(range, file_->rules);
    if (wrong.empty())
      all.sound.push_back(std::move(range));
    else
      all.damaged.push_back({std::move(range), std::move(wrong)});
  }
  return all;
}

RangeRecord Ranges::record(const FamilyRange& range) const {
  RangeRecord record{.table = range.table,
                     .progress = "",
                     .variants = {},
                     .stored_at = range.stored_at,
                     .provenance = range.provenance};
  for (const FamilyRange::Variant& variant : range.variants)
    record.variants.push_back(
        {variant.config, "", variant.interface, read_cubin(file_->database, variant.cubin_digest)});
  return record;
}

std::vector<RangeGeneration> Ranges::history(std::int64_t range) const {
  std::vector<RangeGeneration> all;
  Query row = file_->database.query(
      "SELECT generation, reason, replaced_at, plan, provenance, stored_at FROM range_history y WHERE range = ?"
      " AND digest = " MOETUNE_RANGE_HISTORY_DIGEST " ORDER BY generation DESC",
      range);
  while (row.step()) all.push_back({row.integer(0), row.text(1), row.text(2), row.text(3), row.text(4), row.text(5)});
  return all;
}

RangeGeneration Ranges::roll_back(std::int64_t range, std::optional<std::int64_t> number) {
  const Database& database = file_->database;
  WriteTransaction transaction(database);
  const std::string place = "range table " + std::to_string(range) + " in " + database.path().string();
  const std::string present = table_of(database, range);
  RangeGeneration chosen = chosen_generation(history(range), number, place, "table",
                                             [&](const RangeGeneration& one) { return one.table != present; });
  if (!has_range_cubins(database, range, chosen.number)) refuse_damaged_generation(chosen.number, place);
  keep_range(database, range, kReplacedRollback);
  database.run("UPDATE ranges SET plan = ?2, provenance = ?3, stored_at = ?4 WHERE id = ?1", range, chosen.table,
               chosen.provenance, chosen.stored_at);
  const std::vector<std::int64_t> cubins = range_cubins_of(database, range);
  database.run("DELETE FROM range_cubins WHERE range = ?", range);
  database.run(
      "INSERT INTO range_cubins (range, number, config, interface, cubin) SELECT range, number, config, interface,"
      " cubin FROM range_history_cubins WHERE range = ? AND generation = ?",
      range, chosen.number);
  database.run("UPDATE ranges AS g SET digest = " MOETUNE_RANGE_DIGEST " WHERE id = ?", range);
  drop_unused(database, cubins);
  transaction.commit();
  return chosen;
}

bool Ranges::forget(std::int64_t range) {
  WriteTransaction transaction(file_->database);
  Query found = file_->database.query("SELECT 1 FROM ranges WHERE id = ?", range);
  if (!found.step()) return false;
  file_->database.run("DELETE FROM ranges WHERE id = ?", range);  // its rows elsewhere go with it
  file_->database.run(kDropUnusedCubins);
  transaction.commit();
  return true;
}

}  // namespace moetune
