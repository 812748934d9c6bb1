#include "cache/tallies.h"

#include <array>
#include <cstdint>

#include "cache/schema/schema.h"

namespace moetune {
namespace {

constexpr std::array kTallied = {"hardware", "workloads",     "trials", "winners", "history",
                                 "ranges",   "range_history", "cubins", "builds",  "calibrations"};

std::string rows_text(std::int64_t rows) { return std::to_string(rows) + (rows == 1 ? " row" : " rows"); }

// "" if they agree.
std::string difference(const Tally& stored, const Tally& found) {
  if (found.rows < stored.rows)
    return "lacks " + rows_text(stored.rows - found.rows) + " that moetune stored: another program deleted them";
  if (found.rows > stored.rows) return "has " + rows_text(found.rows - stored.rows) + " that moetune did not store";
  return found.digest == stored.digest ? "" : "does not hold the rows that moetune stored";
}

// The statement that makes one of a table's triggers.
std::string trigger_of(const std::string& table, const std::string& change, const std::string& event, const char* more,
                       const char* added, const char* removed) {
  return "CREATE TEMP TRIGGER tally_" + table + "_" + change + " AFTER " + event + " ON main." + table +
         " BEGIN UPDATE tallies SET rows = rows + " + more + ", digest = moetune_tallied(digest, " + added + ", " +
         removed + ") WHERE name = '" + table + "'; END;";
}

std::string trigger_of_insertions(const std::string& table) {
  return trigger_of(table, "insert", "INSERT", "1", "new.digest", "NULL");
}

std::string triggers_of(const std::string& table) {
  return trigger_of_insertions(table) + trigger_of(table, "delete", "DELETE", "-1", "NULL", "old.digest") +
         trigger_of(table, "update", "UPDATE OF digest", "0", "new.digest", "old.digest");
}

}  // namespace

void keep_tallies(const Database& database) {
  std::string sql = "PRAGMA recursive_triggers = ON;";  // INSERT OR REPLACE deletes rows, too
  for (const char* const table : kTallied) sql += triggers_of(table);
  database.execute(sql);
}

void stop_tallies(const Database& database) {
  std::string sql;
  for (const std::string table : kTallied)
    for (const char* const change : {"_insert", "_delete", "_update"})
      sql += "DROP TRIGGER temp.tally_" + table + change + ";";
  database.execute(sql);
}

TrialCounter::TrialCounter(const Database& database) : database_(database) {
  database_.execute("DROP TRIGGER temp.tally_trials_insert; DROP TRIGGER main.trial_counts_insert");
}

void TrialCounter::inserted(std::int64_t workload, std::string_view outcome, std::string_view digest) {
  tally_.add(digest);
  auto& counts = counts_[workload];
  const auto known = counts.find(outcome);
  ++(known != counts.end() ? known : counts.emplace(outcome, 0).first)->second;
}

void TrialCounter::finish() {
  Tally kept;
  {
    Query row = database_.query("SELECT rows, digest FROM tallies WHERE name = 'trials'");
    if (row.step()) kept = {row.integer(0), static_cast<std::uint64_t>(row.integer(1))};
  }
  database_.run("UPDATE tallies SET rows = ?, digest = ? WHERE name = 'trials'", kept.rows + tally_.rows,
                static_cast<std::int64_t>(kept.digest + tally_.digest));
  for (const auto& [workload, counts] : counts_) {
    for (const auto& [outcome, trials] : counts)
      database_.run(
          "INSERT INTO trial_counts VALUES (?, ?, ?)"
          " ON CONFLICT (workload, outcome) DO UPDATE SET trials = trials + excluded.trials",
          workload, outcome, trials);
  }
  database_.execute(kCountInserted);
  database_.execute(trigger_of_insertions("trials"));
}

void recount_tallies(const Database& database) {
  WriteTransaction transaction(database);
  for (const char* const name : kTallied) {
    const std::string table = name;
    database.execute("INSERT OR REPLACE INTO tallies SELECT '" + table +
                     "', count(*), moetune_tally(digest) FROM main." + table);
  }
  transaction.commit();
}

std::vector<TallyDifference> tally_differences(const Database& database, const Tally& trials) {
  static const std::array<std::string, kTallied.size()> statements = [] {
    std::array<std::string, kTallied.size()> made;
    for (std::size_t i = 0; i < kTallied.size(); ++i)
      made[i] = std::string("SELECT count(*), moetune_tally(digest) FROM ") + kTallied[i];
    return made;
  }();
  std::vector<TallyDifference> differences;
  for (std::size_t i = 0; i < kTallied.size(); ++i) {
    const std::string table = kTallied[i];
    Tally found = trials;
    if (table != "trials") {
      Query row = database.query(statements[i].c_str());
      row.step();
      found = {row.integer(0), static_cast<std::uint64_t>(row.integer(1))};
    }
    Query row = database.query("SELECT rows, digest FROM tallies WHERE name = ?", table);
    const std::string what =
        row.step() ? difference({row.integer(0), static_cast<std::uint64_t>(row.integer(1))}, found) : "is not counted";
    if (!what.empty()) differences.push_back({table, what});
  }
  return differences;
}

}  // namespace moetune
