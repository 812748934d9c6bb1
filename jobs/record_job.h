// The record job: every legal configuration measured on a GPU, into a file that serves as a device where
// there is no GPU (replay/recording.h).
#pragma once

#include <cstdint>
#include <string>

#include "jobs/session/documents.h"
#include "jobs/session/job.h"
#include "jobs/session/subject.h"
#include "tuner/ceilings.h"
#include "tuner/tune.h"

namespace moetune {

struct RecordRequest {
  JobTarget target;
  std::string output;           // the file to write; it must not exist
  std::uint64_t seed = 1;       // of the inputs
  std::size_t in_flight = 256;  // configurations compiled ahead of measuring
  std::uint64_t threads = 0;    // of the compiler; 0: all cores
  std::uint64_t quiet_wait_s = TuneSettings{}.quiet_wait_s;
  bool fresh = false;  // forget what an interrupted recording stored
  // 0: every legal configuration. Else about so many: all run-time values of the same cubins for every problem, the
  // default's among them.
  std::size_t sample = 0;
};

struct RecordResult {
  Subject subject;
  std::size_t legal = 0;  // configurations
  Ceilings ceilings;      // of the GPU; it is calibrated first if it never was
  TuneResult tune;
  // Empty if interrupted, or if trials are contended: the same request continues from there.
  std::string file;
};

// Errors and threads as in job.h; BadField for a file that cannot be written, before anything is measured.
RecordResult record(const RecordRequest& request, const JobContext& context);

Document record_document(const RecordResult& result);

}  // namespace moetune
