#include "cache/trials.h"

#include "cache/cache_file.h"

namespace moetune {

void read_trial(const Query& row, TrialRecord& trial, int first) {
  trial.config = row.view(first);
  trial.outcome = row.view(first + 1);
  trial.message = row.view(first + 2);
  trial.time_us = row.real(first + 3);
  trial.interval_low_us = row.real(first + 4);
  trial.interval_high_us = row.real(first + 5);
  trial.samples = static_cast<int>(row.integer(first + 6));
  trial.facts = row.view(first + 7);
  trial.provenance = row.view(first + 8);
  trial.contended = row.integer(first + 9) != 0;
}

void Trials::put(std::int64_t workload, const TrialRecord& trial) {
  // One statement outside a transaction is a transaction: committed when run() returns.
  file_->database.run(
      MOETUNE_PUT_TRIAL("moetune_digest(" MOETUNE_IDENTITY("?1") ", ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"),
      workload, trial.config, trial.outcome, trial.message, trial.time_us, trial.interval_low_us,
      trial.interval_high_us, trial.samples, trial.facts, trial.provenance, int{trial.contended});
}

std::vector<TrialRecord> Trials::of(std::int64_t workload) const {
  std::vector<TrialRecord> all;
  Query row = file_->database.query(
      "SELECT " MOETUNE_TRIAL_COLUMNS " FROM trials t WHERE workload = ?1 AND digest = " MOETUNE_TRIAL_DIGEST
      " AND (SELECT w.digest = " MOETUNE_WORKLOAD_DIGEST " AND h.digest = " MOETUNE_HARDWARE_DIGEST
      " FROM workloads w JOIN hardware h ON h.id = w.hardware WHERE w.id = ?1) ORDER BY id",
      workload);
  while (row.step()) read_trial(row, all.emplace_back());
  return all;
}

std::vector<std::string> Trials::configs(std::int64_t workload) const {
  std::vector<std::string> all;
  Query row = file_->database.query("SELECT config FROM trials WHERE workload = ?", workload);
  while (row.step()) all.push_back(row.text(0));
  return all;
}

std::map<std::string, std::size_t> Trials::counts(std::int64_t workload) const {
  const char* const sql = file_->has_counts()
                              ? "SELECT outcome, trials FROM trial_counts WHERE workload = ? AND trials > 0"
                              : "SELECT outcome, count(*) FROM trials WHERE workload = ? GROUP BY outcome";
  std::map<std::string, std::size_t> counts;
  Query row = file_->database.query(sql, workload);
  while (row.step()) counts.emplace(row.text(0), static_cast<std::size_t>(row.integer(1)));
  return counts;
}

void Trials::clear(std::int64_t workload) {
  file_->alone_on(workload, [&] { file_->database.run("DELETE FROM trials WHERE workload = ?", workload); });
}

void Trials::put_calibration(const HardwareKey& hardware, const std::string& name, double value) {
  const Database& database = file_->database;
  WriteTransaction transaction(database);
  database.run(
      "INSERT INTO calibrations (hardware, name, value, digest) VALUES (?1, ?2, ?3, moetune_digest(?4, ?2, ?3))"
      " ON CONFLICT (hardware, name) DO UPDATE SET value = excluded.value, digest = excluded.digest",
      put_hardware(database, hardware), name, value, hardware.text());
  transaction.commit();
}

std::map<std::string, double> Trials::calibrations(const HardwareKey& hardware) const {
  std::map<std::string, double> all;
  Query row = file_->database.query(
      "SELECT c.name, c.value FROM calibrations c JOIN hardware h ON h.id = c.hardware WHERE h.key = ?"
      " AND c.digest = " MOETUNE_CALIBRATION_DIGEST,
      hardware.text());
  while (row.step())
    if (is_calibration(row.real(1))) all.emplace(row.text(0), row.real(1));
  return all;
}

}  // namespace moetune
