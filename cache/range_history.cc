// The part of Cache that keeps replaced range tables and goes back to them.
#include "cache/cache_impl.h"
#include "cache/file/blob.h"
#include "cache/generations.h"
#include "cache/history.h"
#include "cache/ranges.h"

namespace moetune {
namespace {

bool has_range_cubins(const Database& database, std::int64_t range, std::int64_t generation) {
  Query row = database.query(
      "SELECT count(*), count(c.id), coalesce(sum(moetune_unpacked_digest(c.frame, c.bytes) = c.digest), 0)"
      " FROM range_history_cubins v LEFT JOIN cubins c ON c.id = v.cubin WHERE v.range = ? AND v.generation = ?",
      range, generation);
  return row.step() && row.integer(0) == row.integer(1) && row.integer(0) == row.integer(2);
}

std::string table_of_range(const Database& database, std::int64_t range) {
  Query row = database.query("SELECT plan FROM ranges WHERE id = ?", range);
  return row.step() ? row.text(0) : "";
}

}  // namespace

void Cache::Impl::keep_range(std::int64_t range, const std::string& reason) const {
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
  database.run(
      "UPDATE range_history AS y SET digest = " MOETUNE_RANGE_HISTORY_DIGEST
      " WHERE range = ?1 AND generation = (SELECT max(generation) FROM range_history WHERE range = ?1)",
      range);
}

std::vector<RangeGeneration> Cache::range_history(std::int64_t range) const {
  std::vector<RangeGeneration> all;
  Query row = impl_->database.query(
      "SELECT generation, reason, replaced_at, plan, provenance, stored_at FROM range_history y WHERE range = ?"
      " AND digest = " MOETUNE_RANGE_HISTORY_DIGEST " ORDER BY generation DESC",
      range);
  while (row.step())
    all.push_back({row.integer(0), row.text(1), row.text(2), row.text(3), row.text(4), row.text(5)});
  return all;
}

RangeGeneration Cache::roll_back_range(std::int64_t range, std::optional<std::int64_t> number) {
  const Database& database = impl_->database;
  WriteTransaction transaction(database);
  const std::string place = "range table " + std::to_string(range) + " in " + path().string();
  const std::string present = table_of_range(database, range);
  RangeGeneration chosen =
      chosen_generation(range_history(range), number, place, "table",
                        [&](const RangeGeneration& one) { return one.table != present; });
  if (!has_range_cubins(database, range, chosen.number)) refuse_damaged_generation(chosen.number, place);
  impl_->keep_range(range, kReplacedRollback);
  database.run("UPDATE ranges SET plan = ?2, provenance = ?3, stored_at = ?4 WHERE id = ?1", range,
               chosen.table, chosen.provenance, chosen.stored_at);
  database.run("DELETE FROM range_cubins WHERE range = ?", range);
  database.run(
      "INSERT INTO range_cubins (range, number, config, interface, cubin) SELECT range, number, config, interface,"
      " cubin FROM range_history_cubins WHERE range = ? AND generation = ?",
      range, chosen.number);
  database.run("UPDATE ranges AS g SET digest = " MOETUNE_RANGE_DIGEST " WHERE id = ?", range);
  database.run(kDropUnusedCubins);
  transaction.commit();
  return chosen;
}

}  // namespace moetune
