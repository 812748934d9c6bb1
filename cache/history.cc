// The part of Cache that keeps replaced winners and goes back to them.
#include "cache/history.h"

#include "cache/cache_impl.h"
#include "cache/file/blob.h"
#include "cache/generations.h"

namespace moetune {
namespace {

#define MOETUNE_WINNER_COLUMNS                                                                        \
  "workload, config, time_us, interval_low_us, interval_high_us, default_time_us, roofline, plan,"    \
  " interface, cubin, fallback_config, fallback_plan, fallback_interface, fallback_cubin, contended," \
  " provenance, stored_at, timings"

// Whether the cubins of a generation are there and whole.
bool has_cubins(const Database& database, std::int64_t workload, std::int64_t generation) {
  Query row = database.query(
      "SELECT moetune_unpacked_digest(c.frame, c.bytes) = c.digest, f.id IS NULL OR"
      " moetune_unpacked_digest(f.frame, f.bytes) = f.digest FROM history y JOIN cubins c ON c.id = y.cubin"
      " LEFT JOIN cubins f ON f.id = y.fallback_cubin WHERE y.workload = ? AND y.generation = ?",
      workload, generation);
  return row.step() && row.integer(0) != 0 && row.integer(1) != 0;
}

// Whether the generation launches what the present winner does.
bool is_present_winner(const Database& database, std::int64_t workload, std::int64_t generation) {
  return database
      .query(
          "SELECT 1 FROM history y JOIN winners v ON v.workload = y.workload WHERE y.workload = ?"
          " AND y.generation = ? AND v.config = y.config AND v.cubin = y.cubin",
          workload, generation)
      .step();
}

}  // namespace

void Cache::Impl::keep_winner(std::int64_t workload, const std::string& reason) const {
  database.run("INSERT INTO history (generation, reason, replaced_at, digest, " MOETUNE_WINNER_COLUMNS
               ") SELECT"
               " (SELECT coalesce(max(generation), 0) + 1 FROM history WHERE workload = ?1), ?2,"
               " strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), '', " MOETUNE_WINNER_COLUMNS
               " FROM winners v WHERE workload = ?1 AND digest = " MOETUNE_WINNER_DIGEST,
               workload, reason);
  if (database.changes() > 0)
    database.run(
        "UPDATE history AS y SET digest = " MOETUNE_HISTORY_DIGEST
        " WHERE workload = ?1 AND generation = (SELECT max(generation) FROM history WHERE workload = ?1)",
        workload);
}

std::vector<Generation> Cache::history(std::int64_t workload) const {
  std::vector<Generation> all;
  Query row = impl_->database.query(
      "SELECT generation, reason, replaced_at, config, time_us, interval_low_us, interval_high_us, default_time_us,"
      " contended, provenance, stored_at FROM history y WHERE workload = ? AND digest = " MOETUNE_HISTORY_DIGEST
      " ORDER BY generation DESC",
      workload);
  while (row.step()) {
    all.push_back({row.integer(0), row.text(1), row.text(2), row.text(3), row.real(4), row.real(5),
                   row.real(6), row.real(7), row.integer(8) != 0, row.text(9), row.text(10)});
  }
  return all;
}

Generation Cache::roll_back(std::int64_t workload, std::optional<std::int64_t> number) {
  const Database& database = impl_->database;
  WriteTransaction transaction(database);
  const std::string place = "workload " + std::to_string(workload) + " in " + path().string();
  Generation chosen = chosen_generation(
      history(workload), number, place, "winner",
      [&](const Generation& one) { return !is_present_winner(database, workload, one.number); });
  if (!has_cubins(database, workload, chosen.number)) refuse_damaged_generation(chosen.number, place);
  impl_->keep_winner(workload, kReplacedRollback);
  database.run("INSERT OR REPLACE INTO winners (digest, " MOETUNE_WINNER_COLUMNS
               ") SELECT '', " MOETUNE_WINNER_COLUMNS " FROM history WHERE workload = ? AND generation = ?",
               workload, chosen.number);
  database.run("UPDATE winners AS v SET digest = " MOETUNE_WINNER_DIGEST " WHERE workload = ?", workload);
  database.run(kDropUnusedCubins);
  transaction.commit();
  return chosen;
}

}  // namespace moetune
