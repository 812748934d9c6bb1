// The stored winner of a session's workload, ready to run. Free functions for the session's thread.
#pragma once

#include <string>

#include "base/error.h"
#include "jobs/session.h"

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

// The stored winner of the session's workload on this very hardware, its cubin as stored. Warns if it was
// tuned with other sources or another compiler, or if it is contended, which `contended` says too. Throws
// NothingTuned, and DamagedWinner if it cannot be used.
Candidate stored_candidate(Session& session, const Events& events, bool* contended = nullptr);

// Where a candidate's cubin came from: "stored" with a winner, "cached" from an earlier compilation, or
// "compiled" now.
std::string cubin_source(const Candidate& candidate, bool stored);

}  // namespace moetune
