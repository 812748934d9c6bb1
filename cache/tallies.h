// How many rows each table has and a digest over all of them, kept beside the rows, so that a check notices rows that
// somebody else has added, altered or deleted, even if each of those left is sound.
//
// Temporary triggers of each writing connection keep them up in the transaction that changes the rows. Other programs
// that write to the file have no such triggers: what they do shows. For cache/ alone; stateless.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cache/file/database.h"

namespace moetune {

// Makes this connection's triggers. Call once for a connection that writes, after the migration.
void keep_tallies(const Database& database);

// Runs a change of many trials within a transaction. Their tally moves once, by as much as the sum over all trials has:
// what another program did to them before stays as visible as it was. Takes a scan of all trials before and one after.
void tally_trials_once(const Database& database, const std::function<void()>& change);

// Counts anew what is there, as if moetune had stored it all.
void recount_tallies(const Database& database);

struct TallyDifference {
  std::string table;
  std::string what;  // "lacks 3 rows that moetune stored: somebody else deleted them"
};
std::vector<TallyDifference> tally_differences(const Database& database);

}  // namespace moetune
