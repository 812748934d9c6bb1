// Range searches on recordings that are made up, which cost no time.
#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "jobs/range/job.h"
#include "tests/jobs/made_up_range.h"
#include "tests/temporary_folder.h"

namespace moetune::testing {

inline RangeRequest range_request(const TemporaryFolder& folder, const std::string& cache = "cache.db") {
  RangeRequest request;
  request.target.workload = {.kernel = "router", .problem = kMadeUpFamily, .preset = ""};
  request.target.device = "replay:" + folder.file("recordings");
  request.target.cache = {.path = folder.file(cache), .none = false};
  request.over = "tokens=1..4096";
  request.settings.strategy = "local";  // which costs no time
  request.settings.budget = 30;
  request.warm_budget = 12;
  request.shape_budget = 11;
  request.variants = 6;
  request.no_compile = true;
  return request;
}

// Counts the trials that a search measured itself.
inline JobContext counting_trials(std::size_t& measured) {
  return {.events = {.listener = [&measured](const Event& event) {
            const auto* const ended = std::get_if<TrialEnded>(&event.what);
            measured += ended != nullptr && !ended->trial.resumed;
          }}};
}

// The search of range_request(), which came to its end.
struct SearchedRange {
  RangeResult result;
  std::vector<std::string> stages;        // each once in a row
  std::size_t planned = 0, measured = 0;  // cells, trials
  std::string cache;                      // the file's bytes
};

inline SearchedRange search_made_up_range() {
  const TemporaryFolder folder;
  write_made_up_range(folder.file("recordings"));
  SearchedRange range;
  const EventListener count = counting_trials(range.measured).events.listener;
  const auto listener = [&](const Event& event) {
    count(event);
    const auto* const advanced = std::get_if<RangeAdvanced>(&event.what);
    if (advanced == nullptr) return;
    if (range.stages.empty() || range.stages.back() != advanced->stage) range.stages.emplace_back(advanced->stage);
    range.planned = std::max(range.planned, advanced->planned);
  };
  range.result = search_range(range_request(folder), {.events = {.listener = listener}});
  range.cache = Cache::open(folder.file("cache.db"), Cache::Mode::read_only).content();
  return range;
}

// Makes the folder's recordings and the cache of the search of its range_request(). Searched once a process; each
// folder gets a copy.
inline const SearchedRange& write_searched_range(const TemporaryFolder& folder) {
  static const SearchedRange range = search_made_up_range();
  write_made_up_range(folder.file("recordings"));
  std::ofstream(folder.file("cache.db"), std::ios::binary) << range.cache;
  return range;
}

// Without what differs from folder to folder, too.
inline std::string text_without_time(const RangeRequest& request, const RangeResult& result) {
  Document document = range_document(request, result);
  document.erase("wall_s");
  document.erase("cache");
  document["device"].erase("id");
  return document.dump();
}

}  // namespace moetune::testing
