// The bench job: what is stored and serves, the default and the reference timed together in interleaved rounds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jobs/session/documents.h"
#include "jobs/session/job.h"
#include "jobs/session/subject.h"

namespace moetune {

struct BenchRequest {
  JobTarget target;
  std::optional<std::string> config;   // one more to compare, over the default; it needs no winner
  std::optional<std::string> assume;   // a row more for each configuration, with this field of its calls at 1
  std::uint64_t seed = 1;              // of the inputs
  std::uint64_t rounds = 41;           // samples of each
  Timing timing = Timing::overlapped;  // of all rows; the first has rows of the other timings too
  std::uint64_t quiet_wait_s = TuneSettings{}.quiet_wait_s;
};

struct BenchRow {
  std::string what;  // "table" or "winner", also " alone" and " chained" (or of "config"), "default", "reference"; the
                     // all but the last also with " ASSUMPTION" behind
  std::string config;      // empty for the reference
  std::string table = {};  // "table:3" if it is a range table's choice, and the problem of its cell that serves
  std::string cell = {};   // ("" if the table expects its choice)
  std::string cubin;       // cubin_source(); empty if it did not compile
  Timing timing = Timing::overlapped;
  TrialResult result;
  Launches launches = Launches::separate;
  std::optional<Floor> floor;  // for launches that overlap as this row's do; nullopt before a calibration
};

struct BenchResult {
  Subject subject;
  std::size_t programs_compiled = 0;
  std::vector<BenchRow> rows;     // what serves first, if anything does; empty if interrupted
  std::vector<Floor> floors;      // of the first row, a ceiling each (floors_of)
  bool winner_contended = false;  // as it is stored
  bool contended = false;         // somebody else used the GPU during this bench
  Contention contention;
  bool interrupted = false;
};

// Errors and threads as in job.h; throws NothingTuned (stored_candidate.h) if nothing is stored that serves, and no
// configuration is named.
BenchResult bench(const BenchRequest& request, const JobContext& context);

Document bench_document(const BenchResult& result);

// The subject of a profiler: the first that serves, or the configuration that was named. Nothing is measured.
struct ProfileTarget {
  Subject subject;
  std::string what;  // "table", "winner" or "config"
  std::string config;
  std::string cubin;                 // cubin_source()
  std::vector<std::string> entries;  // of its launches, in order; each once
  std::size_t launches = 0;
};

// Errors and threads as bench(); throws BrokenEnvironment too if the configuration does not compile.
ProfileTarget profile_target(const BenchRequest& request, const JobContext& context);

}  // namespace moetune
