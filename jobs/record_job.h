// The record job: every legal configuration measured on a GPU, into a file that serves as a device where
// there is no GPU (replay/recording.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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

// Recordings of a whole range of a family, one file a problem in the folder `one.output`: what a range search replays
// (jobs/range/job.h).
struct RecordRangeRequest {
  RecordRequest one;
  std::string over;        // "batch=1..256,context=512..131072"
  std::size_t shapes = 4;  // more problems that are not of the grid, for the certificate
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

struct RecordRangeResult {
  std::vector<RecordResult> recordings;  // those of this run
  std::vector<std::string> known;        // files that were there already
  std::vector<std::string> left_out;     // problems that the device cannot hold
  std::size_t planned = 0;
  bool interrupted = false;
  std::string contended;  // the problem at which somebody else's work ended it; "" for none
};

// One problem after the other; `ended` hears of each. A file that a recording of its problem is in is left as it is, so
// that the same request goes on. Errors as of record(); BadField (over) for ranges that the kernel does not have.
RecordRangeResult record_range(const RecordRangeRequest& request, const JobContext& context,
                               const std::function<void(const RecordResult&)>& ended);

Document record_range_document(const RecordRangeResult& result);

}  // namespace moetune
