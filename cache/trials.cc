// The part of Cache that stores trials.
#include "base/error.h"
#include "cache/cache_impl.h"

namespace moetune {

void Cache::put_trial(std::int64_t workload, const TrialRecord& trial) {
  // One statement outside a transaction is a transaction: committed when run() returns.
  impl_->database.run(
      "INSERT INTO trials (workload, config, outcome, message, time_us, interval_low_us, interval_high_us,"
      " samples, facts, provenance, contended, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
      " moetune_digest(" MOETUNE_IDENTITY("?1") ", ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11))"
      " ON CONFLICT (workload, config) DO UPDATE SET outcome = excluded.outcome, message = excluded.message,"
      " time_us = excluded.time_us, interval_low_us = excluded.interval_low_us,"
      " interval_high_us = excluded.interval_high_us, samples = excluded.samples, facts = excluded.facts,"
      " provenance = excluded.provenance, contended = excluded.contended, digest = excluded.digest",
      workload, trial.config, trial.outcome, trial.message, trial.time_us, trial.interval_low_us,
      trial.interval_high_us, trial.samples, trial.facts, trial.provenance, int{trial.contended});
}

std::vector<TrialRecord> Cache::trials(std::int64_t workload) const {
  std::vector<TrialRecord> all;
  Query row = impl_->database.query(
      "SELECT config, outcome, message, time_us, interval_low_us, interval_high_us, samples, facts,"
      " provenance, contended FROM trials t WHERE workload = ?1 AND digest = " MOETUNE_TRIAL_DIGEST
      " AND (SELECT w.digest = " MOETUNE_WORKLOAD_DIGEST " AND h.digest = " MOETUNE_HARDWARE_DIGEST
      " FROM workloads w JOIN hardware h ON h.id = w.hardware WHERE w.id = ?1) ORDER BY id",
      workload);
  while (row.step()) {
    all.push_back({row.text(0), row.text(1), row.text(2), row.real(3), row.real(4), row.real(5),
                   static_cast<int>(row.integer(6)), row.text(7), row.text(8), row.integer(9) != 0});
  }
  return all;
}

void Cache::begin_search(std::int64_t workload) {
  impl_->searches.enter(workload);
  impl_->begin_writing();
}

void Cache::Impl::alone_on(std::int64_t workload, const std::function<void()>& change) {
  if (!searches.try_exclusive(workload)) {
    throw BrokenEnvironment("another search of this workload is running on " + database.path().string() +
                            ", and its trials stay: wait for it to end");
  }
  try {
    change();
  } catch (...) {
    searches.release_exclusive(workload);
    throw;
  }
  searches.release_exclusive(workload);
}

void Cache::clear_trials(std::int64_t workload) {
  impl_->alone_on(workload, [&] { impl_->database.run("DELETE FROM trials WHERE workload = ?", workload); });
}

void Cache::forget(std::int64_t workload) {
  impl_->alone_on(workload, [&] {
    WriteTransaction transaction(impl_->database);
    impl_->database.run("DELETE FROM workloads WHERE id = ?", workload);  // its rows elsewhere go with it
    impl_->database.run(kDropUnusedCubins);
    transaction.commit();
  });
}

}  // namespace moetune
