#include "cache/workloads.h"

#include "cache/cache_file.h"
#include "cache/cubins.h"

namespace moetune {
namespace {

// The columns of workload_of().
#define SELECT_WORKLOADS                                                                                          \
  "SELECT w.id, w.kernel, w.problem, w.source_digest, w.toolchain, w.timing, w.family, " MOETUNE_HARDWARE_COLUMNS \
  " FROM workloads w JOIN hardware h ON h.id = w.hardware "

Workload workload_of(const Query& row) {
  return {row.integer(0),
          {row.text(1), row.text(2), hardware_of(row, 7), row.text(3), row.text(4), stored_timing(row.text(5))},
          row.text(6)};
}

}  // namespace

std::int64_t Workloads::id(const WorkloadKey& key, const std::string& family) {
  const Database& database = file_->database;
  WriteTransaction transaction(database);
  std::optional<std::int64_t> id;
  {
    Query changed = database.query(
        "INSERT INTO workloads AS w (kernel, problem, hardware, source_digest, toolchain, family, timing, digest)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, moetune_digest(?1, ?2, ?3, ?4,"
        " ?5 || iif(?7 = 'overlapped', '', char(10) || ?7), ?6))"
        " ON CONFLICT DO UPDATE SET family = excluded.family, digest = excluded.digest"
        " WHERE w.family = '' AND w.digest = " MOETUNE_WORKLOAD_DIGEST " RETURNING id",
        key.kernel, key.problem, put_hardware(database, key.hardware), key.source_digest, key.toolchain, family,
        std::string(timing_name(key.timing)));
    while (changed.step()) id = changed.integer(0);
  }
  if (!id) id = find(key);
  transaction.commit();
  return id.value();
}

std::optional<std::int64_t> Workloads::find(const WorkloadKey& key) const {
  Query found = file_->database.query(
      "SELECT w.id FROM workloads w JOIN hardware h ON h.id = w.hardware WHERE w.kernel = ? AND w.problem = ?"
      " AND h.key = ? AND w.source_digest = ? AND w.toolchain = ? AND w.timing = ?",
      key.kernel, key.problem, key.hardware.text(), key.source_digest, key.toolchain,
      std::string(timing_name(key.timing)));
  return found.step() ? std::optional(found.integer(0)) : std::nullopt;
}

std::optional<Workload> Workloads::find(std::int64_t id) const {
  Query row = file_->database.query(SELECT_WORKLOADS "WHERE w.id = ?", id);
  return row.step() ? std::optional(workload_of(row)) : std::nullopt;
}

std::vector<Workload> Workloads::of(const std::string& kernel, const std::string& problem,
                                    const HardwareKey& hardware) const {
  std::vector<Workload> all;
  Query row = file_->database.query(SELECT_WORKLOADS "WHERE w.kernel = ? AND w.problem = ? AND h.key = ? ORDER BY w.id",
                                    kernel, problem, hardware.text());
  while (row.step()) all.push_back(workload_of(row));
  return all;
}

std::vector<Workload> Workloads::all() const {
  std::vector<Workload> all;
  Query row = file_->database.query(SELECT_WORKLOADS "ORDER BY w.id");
  while (row.step()) all.push_back(workload_of(row));
  return all;
}

void Workloads::forget(std::int64_t workload) {
  file_->alone_on(workload, [&] {
    WriteTransaction transaction(file_->database);
    file_->database.run("DELETE FROM workloads WHERE id = ?", workload);  // its rows elsewhere go with it
    file_->database.run(kDropUnusedCubins);
    transaction.commit();
  });
}

void Workloads::begin_search(std::int64_t workload) {
  file_->searches.enter(workload);
  file_->begin_writing();
}

}  // namespace moetune
