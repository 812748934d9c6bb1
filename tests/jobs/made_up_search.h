// Range searches on recordings that are made up, which cost no time.
#pragma once

#include <string>

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
  request.warm_budget = request.shape_budget = 12;
  request.variants = 6;
  request.no_compile = true;
  return request;
}

inline std::string text_without_time(const RangeRequest& request, const RangeResult& result) {
  Document document = range_document(request, result);
  document.erase("wall_s");
  document.erase("cache");
  return document.dump();
}

}  // namespace moetune::testing
