// The verify job: what is stored and serves, or a configuration, checked against the reference on fresh inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jobs/session/documents.h"
#include "jobs/session/job.h"
#include "jobs/session/subject.h"

namespace moetune {

struct VerifyRequest {
  JobTarget target;
  std::optional<std::string> config;  // over the default; nullopt: the stored winner
  std::uint64_t seed = 0;             // of the first inputs; 0: one that nobody can foresee
  std::uint64_t seeds = 3;            // how many inputs
  double trial_time_s = MeasurePolicy{}.time_limit_s;
};

struct InputCheck {
  std::uint64_t seed = 0;
  TrialResult result;
};

struct CheckedOutput {
  std::string name;
  OutputCheck check;
};

struct VerifyResult {
  Subject subject;
  std::string config;
  bool stored = false;  // the stored cubin that serves here, as it is
  std::string table;    // "table:3" if it is a range table's; "" for the workload's own winner
  std::string cell;     // the problem of the table's cell that serves; "" if the table expects its choice
  std::string cubin;    // cubin_source(); empty, as `config` is, if a stop request came while it was compiled
  std::size_t programs_compiled = 0;
  std::vector<CheckedOutput> outputs;  // and how each is checked
  bool inputs_from_files = false;      // written once and for all: none of them is fresh
  std::vector<InputCheck> checks;      // fewer than asked for if interrupted
  bool disturbed = false;              // somebody else used the GPU at the end: of no importance for what is right
  bool interrupted = false;

  bool right() const;  // checked at least once, and right every time
};

// Errors and threads as in job.h; throws NothingTuned (stored_candidate.h) if there is no winner.
VerifyResult verify(const VerifyRequest& request, const JobContext& context);

Document verify_document(const VerifyResult& result);

}  // namespace moetune
