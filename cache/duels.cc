#include "cache/duels.h"

#include <map>
#include <tuple>

#include "cache/cache_impl.h"
#include "cache/merge.h"
#include "cache/schema/schema.h"

namespace moetune {
namespace {

bool begins_lower(const Contender& a, const Contender& b) {
  return std::tie(a.low_us, a.high_us, a.record) < std::tie(b.low_us, b.high_us, b.record);
}

Contender contender_of(const Query& row) {
  return {row.text(0),         row.real(1), row.real(2), row.real(3),
          row.integer(4) != 0, row.text(5), row.text(6), row.text(7)};
}

}  // namespace

bool Contender::beats(const Contender& other, MergeOrder order) const {
  const bool by_date = order == MergeOrder::later && contended == other.contended;
  if (by_date && stored_at != other.stored_at) return stored_at > other.stored_at;
  return std::tie(contended, high_us, record) < std::tie(other.contended, other.high_us, other.record);
}

std::optional<Contender> find_contender(const Database& database, std::int64_t workload) {
  Query row = database.query(
      "SELECT v.config, v.time_us, v.interval_low_us, v.interval_high_us, v.contended, v.provenance, v.stored_at,"
      " v.digest FROM winners v JOIN workloads w ON w.id = v.workload JOIN hardware h ON h.id = w.hardware"
      " WHERE v.workload = ? AND v.digest = " MOETUNE_WINNER_DIGEST " AND h.digest = " MOETUNE_HARDWARE_DIGEST
      " AND w.digest = " MOETUNE_WORKLOAD_DIGEST,
      workload);
  return row.step() ? std::optional(contender_of(row)) : std::nullopt;
}

std::vector<Contender> find_rivals(const Database& database, std::int64_t workload) {
  std::vector<Contender> rivals;
  Query row = database.query(
      "SELECT config, time_us, interval_low_us, interval_high_us, contended, provenance, stored_at, record"
      " FROM rivals r WHERE workload = ? AND digest = " MOETUNE_RIVAL_DIGEST " ORDER BY config",
      workload);
  while (row.step()) rivals.push_back(contender_of(row));
  return rivals;
}

void store_rivals(const Database& database, std::int64_t workload, const Contender& winner,
                  const std::vector<Contender>& known) {
  std::map<std::string, const Contender*> lowest;
  for (const Contender& one : known) {
    if (one.contended != winner.contended || one.low_us > winner.high_us) continue;
    const Contender*& best = lowest[one.config];
    if (best == nullptr || begins_lower(one, *best)) best = &one;
  }
  database.run("DELETE FROM rivals WHERE workload = ?", workload);
  for (const auto& [config, one] : lowest) {
    if (one->record == winner.record) continue;
    database.run(
        "INSERT INTO rivals (workload, config, time_us, interval_low_us, interval_high_us, contended, provenance,"
        " stored_at, record, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '')",
        workload, config, one->time_us, one->low_us, one->high_us, int{one->contended}, one->provenance,
        one->stored_at, one->record);
  }
  database.run("UPDATE rivals AS r SET digest = " MOETUNE_RIVAL_DIGEST " WHERE workload = ?", workload);
}

void drop_settled_rivals(const Database& database, std::int64_t workload, bool contended, double high_us) {
  database.run("DELETE FROM rivals WHERE workload = ? AND (contended <> ? OR interval_low_us > ?)", workload,
               int{contended}, high_us);
}

std::vector<Duel> Cache::duels() const {
  std::vector<Duel> all;
  if (impl_->schema < kSchemaWithHistory) return all;
  for (Workload& workload : workloads()) {
    const std::vector<Contender> rivals = find_rivals(impl_->database, workload.id);
    if (rivals.empty()) continue;
    const std::optional<Contender> winner = find_contender(impl_->database, workload.id);
    if (!winner) continue;
    for (const Contender& rival : rivals) {
      if (rival.config == winner->config) continue;
      all.push_back({workload, winner->config, winner->time_us, winner->low_us, winner->high_us, rival.config,
                     rival.time_us, rival.low_us, rival.high_us, rival.provenance, rival.stored_at});
    }
  }
  return all;
}

void Cache::settle_duels(std::int64_t workload) {
  const Database& database = impl_->database;
  WriteTransaction transaction(database);
  database.run("DELETE FROM rivals WHERE workload = ?", workload);
  database.run(
      "UPDATE winners AS v SET stored_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), digest = ''"
      " WHERE workload = ? AND digest = " MOETUNE_WINNER_DIGEST,
      workload);
  if (database.changes() > 0)
    database.run("UPDATE winners AS v SET digest = " MOETUNE_WINNER_DIGEST " WHERE workload = ?", workload);
  transaction.commit();
}

}  // namespace moetune
