// The range job: a whole range of a family's problems tuned into one table of few cubins, whose loss is measured and
// stored with it.
#pragma once

#include <string>
#include <vector>

#include "jobs/range/state.h"
#include "jobs/range/store.h"
#include "jobs/session/documents.h"
#include "jobs/session/job.h"
#include "jobs/session/subject.h"
#include "tuner/timings.h"

namespace moetune {

struct RangeRequest {
  JobTarget target;                     // what --over does not name comes from its problem and preset
  std::string over;                     // "batch=1..256,context=512..131072"
  TuneSettings settings;                // the budget is that of the first, cold search; `fresh` measures all anew
  double time_s = 0;                    // for everything; 0: no limit
  double regret = 0.02;                 // that no cell may exceed
  std::size_t variants = 4;             // cubins at most, beside those of defaults
  std::size_t warm_budget = 30;         // trials of a search near a tuned shape; tests set fewer, which find less
  std::size_t certificate_shapes = 12;  // 0: none but those that are known
  std::size_t shape_budget = 30;        // trials of an unseen shape's own search
  // Another table of the family that serves today stays if the new one is slower: see RangeComparison.
  bool guard = false;
  bool no_compile = false;
  std::uint64_t threads = 0;
};

// The winner of a cell's own search, with its results under all timings.
struct RangeWinner {
  std::string problem, config;
  std::vector<TimingResult> timings;
};

struct RangeResult {
  Subject subject;  // of the last problem
  std::string family, ranges;
  Timing timing = Timing::overlapped;  // that its times answer; a recording's is always this
  RangeTable table;
  std::vector<UnseenShape> unseen;    // what the table's certificate is of
  std::vector<RangeWinner> winners;   // of the cells that were searched, as far as they are stored
  std::vector<std::string> cubins;    // that the table launches beside defaults, by their compiled parameters
  std::size_t planned = 0;            // cells of the grid, those refined included
  std::size_t left_to_default = 0;    // measured cells in which no cubin of the table is faster than the default
  std::vector<std::string> left_out;  // "problem: why it cannot be measured"
  std::size_t measured = 0;           // cells and shapes, by this run
  std::optional<RangeComparison> comparison;  // with RangeRequest::guard, if there was another table
  bool stored = false;                        // with its cubins, so that a runtime can serve it
  bool interrupted = false, out_of_time = false;
  double wall_s = 0;
};

// Everything commits as it lands, and the same request continues where an earlier one ended. Errors as in job.h;
// BadField if there is no cache, or `over` names what is no free dimension of the kernel.
RangeResult search_range(const RangeRequest& request, const JobContext& context);

Document range_document(const RangeRequest& request, const RangeResult& result);

}  // namespace moetune
