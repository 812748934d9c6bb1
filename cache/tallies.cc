#include "cache/tallies.h"

#include <array>
#include <cstdint>

#include "base/format.h"

namespace moetune {
namespace {

constexpr std::array kTallied = {"hardware", "workloads",     "trials", "winners", "history",
                                 "ranges",   "range_history", "cubins", "builds",  "calibrations"};

std::string rows_text(std::int64_t rows) { return std::to_string(rows) + (rows == 1 ? " row" : " rows"); }

// "" if they agree.
std::string difference(const Query& row) {
  const std::int64_t stored = row.integer(0), found = row.integer(2);
  if (found < stored)
    return "lacks " + rows_text(stored - found) + " that moetune stored: another program deleted them";
  if (found > stored) return "has " + rows_text(found - stored) + " that moetune did not store";
  return row.integer(1) == row.integer(3) ? "" : "does not hold the rows that moetune stored";
}

// The statements that make a table's triggers.
std::string triggers_of(const std::string& table) {
  std::string sql;
  const auto trigger = [&](const std::string& change, const std::string& event, const char* more,
                           const char* added, const char* removed) {
    sql += "CREATE TEMP TRIGGER tally_" + table + "_" + change + " AFTER " + event + " ON main." + table +
           " BEGIN UPDATE tallies SET rows = rows + " + more + ", digest = moetune_tallied(digest, " + added +
           ", " + removed + ") WHERE name = '" + table + "'; END;";
  };
  trigger("insert", "INSERT", "1", "new.digest", "NULL");
  trigger("delete", "DELETE", "-1", "NULL", "old.digest");
  trigger("update", "UPDATE OF digest", "0", "new.digest", "old.digest");
  return sql;
}

struct Tally {
  std::int64_t rows = 0;
  std::uint64_t digest = 0;  // wraps around
};

Tally sum_of_trials(const Database& database) {
  Query row = database.query("SELECT count(*), moetune_tally(digest) FROM trials");
  row.step();
  return {row.integer(0), static_cast<std::uint64_t>(row.integer(1))};
}

}  // namespace

void keep_tallies(const Database& database) {
  std::string sql = "PRAGMA recursive_triggers = ON;";  // INSERT OR REPLACE deletes rows, too
  for (const char* const table : kTallied) sql += triggers_of(table);
  database.execute(sql);
}

void tally_trials_once(const Database& database, const std::function<void()>& change) {
  const Tally before = sum_of_trials(database);
  database.execute(
      "DROP TRIGGER temp.tally_trials_insert; DROP TRIGGER temp.tally_trials_delete;"
      " DROP TRIGGER temp.tally_trials_update");
  change();
  const Tally after = sum_of_trials(database);
  std::uint64_t kept = 0;
  {
    Query row = database.query("SELECT digest FROM tallies WHERE name = 'trials'");
    if (row.step()) kept = static_cast<std::uint64_t>(row.integer(0));
  }
  database.run("UPDATE tallies SET rows = rows + ?, digest = ? WHERE name = 'trials'",
               after.rows - before.rows, static_cast<std::int64_t>(kept + after.digest - before.digest));
  database.execute(triggers_of("trials"));
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

// One statement a table, so that a writer beside it cannot come between the rows and their count.
std::vector<TallyDifference> tally_differences(const Database& database) {
  static const std::array<std::string, kTallied.size()> statements = [] {
    std::array<std::string, kTallied.size()> made;
    for (std::size_t i = 0; i < kTallied.size(); ++i)
      made[i] =
          std::string("SELECT t.rows, t.digest, n.rows, n.digest FROM tallies t, (SELECT count(*) AS rows,") +
          " moetune_tally(digest) AS digest FROM " + kTallied[i] + ") n WHERE t.name = '" + kTallied[i] + "'";
    return made;
  }();
  std::vector<TallyDifference> differences;
  for (std::size_t i = 0; i < kTallied.size(); ++i) {
    Query row = database.query(statements[i].c_str());
    const std::string what = row.step() ? difference(row) : "is not counted";
    if (!what.empty()) differences.push_back({kTallied[i], what});
  }
  return differences;
}

}  // namespace moetune
