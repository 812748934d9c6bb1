// How many rows each table has and a digest over all of them, kept beside the rows, so that a check notices rows that
// somebody else has added, altered or deleted, even if each of those left is sound.
//
// Temporary triggers of each writing connection keep them up in the transaction that changes the rows. Other programs
// that write to the file have no such triggers: what they do shows. For cache/ alone; stateless.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "cache/file/database.h"

namespace moetune {

// Makes this connection's triggers. Call once for a connection that writes, after the migration.
void keep_tallies(const Database& database);

// Removes them, before many rows are written that recount_tallies() counts at once.
void stop_tallies(const Database& database);

// The rows of a table, summed up by whoever reads all of them.
struct Tally {
  std::int64_t rows = 0;
  std::uint64_t digest = 0;  // wraps around

  void add(std::string_view row_digest) { ++rows, digest += digest_head(row_digest); }
};

// Counts trials that are inserted in great number once instead of by triggers: their tally and the file's counts by
// workload and outcome. Within a transaction; other changes of trials go on being counted one by one. Nothing may be
// read of either before finish().
class TrialCounter {
 public:
  explicit TrialCounter(const Database& database);  // of a file with counts

  void inserted(std::int64_t workload, std::string_view outcome, std::string_view digest);
  void finish();

 private:
  const Database& database_;
  Tally tally_;
  std::map<std::int64_t, std::map<std::string, std::int64_t, std::less<>>> counts_;
};

// Counts anew what is there, as if moetune had stored it all.
void recount_tallies(const Database& database);

struct TallyDifference {
  std::string table;
  std::string what;  // "lacks 3 rows that moetune stored: somebody else deleted them"
};
// `trials`: of all trials that the file has now.
std::vector<TallyDifference> tally_differences(const Database& database, const Tally& trials);

}  // namespace moetune
