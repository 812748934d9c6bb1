#include "workloads/tune_list.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "jobs/session/stores.h"
#include "jobs/stored/key_finder.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBroken = 3;  // workloads in a row; then the machine is at fault

// A winner that a search of today would store again.
bool has_sound_winner(const CacheChoice& choice, const WorkloadKey& key) {
  const std::unique_ptr<Cache> cache = open_existing_cache(choice);
  if (cache == nullptr) return false;
  const std::optional<std::int64_t> workload = cache->workloads.find(key);
  if (!workload) return false;
  try {
    const std::optional<WinnerRecord> winner = cache->winners.find(*workload, WinnerParts::without_cubins);
    return winner && !winner->contended && !is_provisional(winner->provenance);
  } catch (const DamagedWinner&) {
    return false;
  }
}

// A complete range may need its share of the time to find that nothing is left to measure: what it has distinguishes it
// from one that was left unfinished before.
TunedState state_of(const RangeResult& range, std::size_t shapes) {
  if (range.interrupted) return TunedState::not_reached;
  if (range.table.cells.empty()) return TunedState::nothing_valid;
  if (range.measured > 0) return TunedState::tuned;
  const RangeCertificate& seen = range.table.certificate;
  const bool has_all = range.table.cells.size() >= range.planned && seen.shapes + seen.failed >= shapes;
  return range.out_of_time && !has_all ? TunedState::not_reached : TunedState::already;
}

class ListTuner {
 public:
  ListTuner(const TuneListRequest& request, const JobContext& context)
      : request_(request), context_(context), keys_(request.search.target.device, request.search.no_compile, "tune") {}

  // A range may take its share, by weight, of the time that is left.
  void tune(TunedRange& tuned, double weight_left) {
    guard(tuned, [&] {
      RangeRequest request{.target = request_.search.target, .over = tuned.range.over};
      request.target.workload = {.kernel = tuned.range.kernel, .problem = tuned.range.problem, .preset = ""};
      request.target.device = keys_.device();
      request.settings = request_.search.settings;
      request.settings.policy.timing = request_.range_timing;
      request.settings.time_budget_s = 0;
      request.regret = request_.regret;
      request.variants = request_.variants;
      request.certificate_shapes = request_.certificate_shapes;
      request.no_compile = request_.search.no_compile;
      request.threads = request_.search.threads;
      if (request_.time_s > 0) request.time_s = std::max(1.0, seconds_left() * tuned.range.weight / weight_left);
      tuned.result = search_range(request, context_);
      tuned.state = state_of(*tuned.result, request.certificate_shapes);
    });
  }

  void tune(TunedPoint& tuned) {
    guard(tuned, [&] {
      WorkloadKey key = keys_.find(tuned.point.kernel, tuned.point.problem);
      if (keys_.gpu() != nullptr) key.timing = request_.search.settings.policy.timing;
      const CacheChoice& cache = request_.search.target.cache;
      if (!cache.none && has_sound_winner(cache, key)) {
        tuned.state = TunedState::already;
        return;
      }
      tuned.search = search(search_of(tuned.point), context_);
      tuned.state = tuned.search->tune.best ? TunedState::tuned : TunedState::nothing_valid;
      if (tuned.search->tune.interrupted) tuned.state = TunedState::not_reached;
    });
  }

  // Throws BrokenEnvironment if nothing could be tuned for want of the device, however short the list.
  void require_device() {
    if (broken_ > 0 && all_broken_) keys_.device();
  }

  bool out_of_time() const { return request_.time_s > 0 && seconds_left() <= 0; }

 private:
  template <typename Tuned, typename Work>
  void guard(Tuned& tuned, const Work& work) {
    try {
      work();
      broken_ = 0;
      all_broken_ = false;
    } catch (const BadInput& error) {
      all_broken_ = false;
      tuned.state = TunedState::left_out;
      tuned.why = error.what();
    } catch (const BrokenEnvironment& error) {  // too little memory for one may do for the next
      if (++broken_ == kMostBroken) throw;
      tuned.state = TunedState::left_out;
      tuned.why = error.what();
    }
  }

  double seconds_left() const { return request_.time_s - std::chrono::duration<double>(Clock::now() - begin_).count(); }

  SearchRequest search_of(const TuningPoint& point) {
    SearchRequest search = request_.search;
    search.target.workload = {.kernel = point.kernel, .problem = point.problem, .preset = ""};
    search.target.device = keys_.device();
    double& limit = search.settings.time_budget_s;
    if (request_.time_s > 0) limit = limit > 0 ? std::min(limit, seconds_left()) : seconds_left();
    return search;
  }

  const TuneListRequest& request_;
  const JobContext& context_;
  KeyFinder keys_;
  std::size_t broken_ = 0;  // workloads in a row
  bool all_broken_ = true;  // so far
  Clock::time_point begin_ = Clock::now();
};

// Time ended before all was measured.
bool is_cut_off(const TunedRange& tuned) {
  return tuned.result && tuned.result->out_of_time && tuned.state != TunedState::already;
}

Document tuned_range_document(const TunedRange& tuned) {
  Document document = {{"kernel", tuned.range.kernel},
                       {"problem", tuned.range.problem},
                       {"over", tuned.range.over},
                       {"weight", tuned.range.weight},
                       {"state", tuned_state_name(tuned.state)}};
  if (!tuned.why.empty()) document["why"] = tuned.why;
  if (tuned.result) {
    const RangeTable& table = tuned.result->table;
    document["cells"] = table.cells.size();
    document["planned"] = tuned.result->planned;
    document["out_of_time"] = is_cut_off(tuned);
    document["cubins"] = tuned.result->cubins;
    document["worst_regret"] = table.worst_cell();
    document["certificate"] = certificate_document(table.certificate);
  }
  return document;
}

Document point_document(const TunedPoint& tuned) {
  Document document = {{"kernel", tuned.point.kernel},
                       {"problem", tuned.point.problem},
                       {"weight", tuned.point.weight},
                       {"state", tuned_state_name(tuned.state)}};
  if (!tuned.why.empty()) document["why"] = tuned.why;
  if (tuned.search && tuned.search->tune.best) {
    document["config"] = tuned.search->tune.best->config.text();
    document["time_us"] = number_or_null(tuned.search->tune.best->result.measurement.median_us);
  }
  return document;
}

}  // namespace

std::string_view tuned_state_name(TunedState state) {
  static constexpr std::string_view kNames[] = {"already_tuned", "tuned", "nothing_valid", "left_out", "not_reached"};
  return kNames[static_cast<std::size_t>(state)];
}

std::size_t TuneListResult::count(TunedState state) const {
  const auto is_it = [&](const auto& one) { return one.state == state; };
  return static_cast<std::size_t>(std::count_if(points.begin(), points.end(), is_it) +
                                  std::count_if(ranges.begin(), ranges.end(), is_it));
}

namespace {

double weight_of(const auto& tuned) {
  if constexpr (requires { tuned.range; }) {
    return tuned.range.weight;
  } else {
    return tuned.point.weight;
  }
}

}  // namespace

TuneListResult tune_list(const TuneListRequest& request, const JobContext& context, const PointListener& ended,
                         const RangeListener& range_ended) {
  TuneListResult result;
  TuningWork work = work_of(request.list);
  double left = 0;
  for (TuningRange& range : work.ranges) left += result.ranges.emplace_back(TunedRange{std::move(range)}).range.weight;
  for (TuningPoint& point : work.points) left += result.points.emplace_back(TunedPoint{std::move(point)}).point.weight;
  ListTuner tuner(request, context);
  std::size_t range = 0, point = 0;
  bool any_cut_off = false;
  while (range < result.ranges.size() || point < result.points.size()) {
    result.interrupted = context.stop.stop_requested();
    result.out_of_time = tuner.out_of_time();
    if (result.interrupted || result.out_of_time) break;
    const bool takes_range =
        point == result.points.size() ||
        (range < result.ranges.size() && weight_of(result.ranges[range]) >= weight_of(result.points[point]));
    if (takes_range) {
      TunedRange& tuned = result.ranges[range++];
      tuner.tune(tuned, std::max(left, tuned.range.weight));
      left -= tuned.range.weight;
      any_cut_off = any_cut_off || is_cut_off(tuned);
      if (range_ended && tuned.state != TunedState::not_reached) range_ended(tuned);
    } else {
      TunedPoint& tuned = result.points[point++];
      tuner.tune(tuned);
      left -= tuned.point.weight;
      if (ended && tuned.state != TunedState::not_reached) ended(tuned);
    }
  }
  result.interrupted = result.interrupted || context.stop.stop_requested();
  result.out_of_time = result.out_of_time || any_cut_off;
  tuner.require_device();
  return result;
}

Document tune_list_document(const TuneListResult& result) {
  Document points = Document::array(), ranges = Document::array();
  for (const TunedPoint& tuned : result.points) points.push_back(point_document(tuned));
  for (const TunedRange& tuned : result.ranges) ranges.push_back(tuned_range_document(tuned));
  return {{"ranges", std::move(ranges)},
          {"points", std::move(points)},
          {"out_of_time", result.out_of_time},
          {"interrupted", result.interrupted}};
}

}  // namespace moetune
