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

}  // namespace

void keep_tallies(const Database& database) {
  std::string sql = "PRAGMA recursive_triggers = ON;";  // INSERT OR REPLACE deletes rows, too
  for (const char* const name : kTallied) {
    const std::string table = name;
    const auto trigger = [&](const std::string& change, const std::string& event, const char* more,
                             const char* added, const char* removed) {
      sql += "CREATE TEMP TRIGGER tally_" + table + "_" + change + " AFTER " + event + " ON main." + table +
             " BEGIN UPDATE tallies SET rows = rows + " + more + ", digest = moetune_tallied(digest, " +
             added + ", " + removed + ") WHERE name = '" + table + "'; END;";
    };
    trigger("insert", "INSERT", "1", "new.digest", "NULL");
    trigger("delete", "DELETE", "-1", "NULL", "old.digest");
    trigger("update", "UPDATE OF digest", "0", "new.digest", "old.digest");
  }
  database.execute(sql);
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
