// The cache's candidates for a session's workload, ready to run. Free functions for the session's thread.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "jobs/session/session.h"

namespace moetune {

// A job wants a stored winner, and no search has stored one.
class NothingTuned : public BadInput {
 public:
  NothingTuned(const std::string& kernel, const std::string& problem, const std::string& gpu)
      : BadInput("nothing is tuned yet for " + kernel + " " + problem + " on " + gpu),
        kernel_(kernel),
        problem_(problem) {}

  const std::string& kernel() const { return kernel_; }
  const std::string& problem() const { return problem_; }

 private:
  std::string kernel_, problem_;
};

// A candidate from the cache, with its cubin as stored.
struct StoredCandidate {
  Candidate candidate;
  std::string table;  // the range table whose choice it is: "table:3"; "" for the workload's own winner
  std::string cell;   // the problem of the table's cell that serves; "" if the table expects its choice
  bool contended = false;

  std::string what() const { return table.empty() ? "winner" : "table"; }
};

// The candidates that serve the session's workload on this very hardware, first the one that serves: the choice of a
// range table, then the workload's own winner; one of them alone if there is no other, or if the winner goes before
// the table. Warns of one that was tuned with other sources or another compiler, and of a winner that is contended or
// provisional. Throws NothingTuned, and DamagedWinner or BrokenEnvironment for records that cannot be used.
std::vector<StoredCandidate> stored_candidates(Session& session, const Events& events);

// The source of a candidate's cubin: "stored" with a winner, "cached" from an earlier compilation, or "compiled" now.
std::string cubin_source(const Candidate& candidate, bool stored);

}  // namespace moetune
