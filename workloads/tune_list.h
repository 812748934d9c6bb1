// Tunes a list of workloads, ranges as tables and shapes by themselves, heaviest first, until time is up. Resumable:
// what has a sound result of today's templates and compiler is left alone, and a stopped search goes on with its own.
//
// A job as in jobs/session/job.h: errors, threads and stop requests as there. A workload that this device cannot run
// is left out with the reason, and the others go on; after three in a row that break down, or without a device, the
// job throws.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "jobs/range/job.h"
#include "jobs/search_job.h"
#include "workloads/workload_list.h"

namespace moetune {

enum class TunedState { already, tuned, nothing_valid, left_out, not_reached };

std::string_view tuned_state_name(TunedState state);  // "already_tuned"

struct TunedPoint {
  TuningPoint point;
  TunedState state = TunedState::not_reached;
  std::string why;                     // of left_out
  std::optional<SearchResult> search;  // of tuned and nothing_valid
};

struct TunedRange {
  TuningRange range;
  TunedState state = TunedState::not_reached;  // already_tuned: nothing was left to measure
  std::string why;                             // of left_out
  std::optional<RangeResult> result;
};

struct TuneListRequest {
  WorkloadList list;
  SearchRequest search;  // of each; its workload is set for it
  Timing range_timing = Timing::chained;
  double regret = 0.02;                 // that no cell of a range may exceed
  std::size_t variants = 4;             // cubins of a range at most
  std::size_t certificate_shapes = 12;  // of a range
  double time_s = 0;                    // 0: no limit
};

struct TuneListResult {
  std::vector<TunedRange> ranges;                 // heaviest first
  std::vector<TunedPoint> points;                 // likewise
  bool interrupted = false, out_of_time = false;  // out_of_time: of all, or a range's share of it

  std::size_t count(TunedState state) const;  // of both
};

using PointListener = std::function<void(const TunedPoint&)>;  // after each
using RangeListener = std::function<void(const TunedRange&)>;

TuneListResult tune_list(const TuneListRequest& request, const JobContext& context, const PointListener& ended,
                         const RangeListener& range_ended = {});

Document tune_list_document(const TuneListResult& result);

}  // namespace moetune
