// Winners as a merge compares them, and the rows of rivals that wait for a duel. For cache/ alone; within the
// caller's transaction.
//
// The rows of a workload are, of every configuration, the record whose interval begins lowest, if it reaches into the
// winner's interval. The winner's own configuration may have such a row (another record of it): it is no rival, but
// becomes one if another configuration wins. Only so do all orders of merging end with the same rivals.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "cache/file/database.h"

namespace moetune {

struct Contender {
  std::string config;
  double time_us = 0, low_us = 0, high_us = 0;
  bool contended = false;
  std::string provenance, stored_at;
  std::string record;  // the digest of its winner's row

  // Before another as a winner of the same key.
  bool beats(const Contender& other, MergeOrder order) const;
};

// The workload's winner, unless its row or its key is damaged.
std::optional<Contender> find_contender(const Database& database, std::int64_t workload);

// The undamaged rows of a workload. The file has the table.
std::vector<Contender> find_rivals(const Database& database, std::int64_t workload);

// Replaces the workload's rows by those of `known` that matter beside `winner`. `known` may hold the winner itself.
void store_rivals(const Database& database, std::int64_t workload, const Contender& winner,
                  const std::vector<Contender>& known);

// Removes the rows that do not matter beside a new winner.
void drop_settled_rivals(const Database& database, std::int64_t workload, bool contended, double high_us);

}  // namespace moetune
