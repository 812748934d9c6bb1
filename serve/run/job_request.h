// The requests that a client may post, as the requests of the jobs: read from JSON field by field, every one bounded.
// No field is a path: the cache and the devices are the service's.
//
// Pure functions. Errors: BadField names the field, BadInput what else is wrong.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "jobs/bench_job.h"
#include "jobs/range/job.h"
#include "jobs/search_job.h"
#include "jobs/verify_job.h"
#include "retune/night.h"
#include "workloads/tune_list.h"

namespace moetune {

struct JobLimits {
  std::uint64_t budget = 100'000;  // trials of one search
  double seconds = 24 * 3600;      // of one job, which ends its search then
  double grace_s = 60;             // beyond that; then it is stopped, whatever it does
  double bytes = 256e9;            // that one launch reads and writes
  std::size_t points = 4096;       // of a list of workloads
};

struct JobRequest {
  std::string kind;
  std::string device;     // one of the service's; "" for any
  std::string canonical;  // JSON with every field: equal requests are equal texts, and parse again
  std::string shown;      // of these, what a list of jobs shows (serve/queue/job_document.h)
  std::variant<SearchRequest, RangeRequest, TuneListRequest, NightRequest, VerifyRequest, BenchRequest> what;
};

inline constexpr const char* kJobKinds[] = {"search", "range", "tune", "verify", "bench", "retune"};

JobRequest parse_job_request(const std::string& kind, const nlohmann::json& request, const JobLimits& limits,
                             const std::vector<std::string>& devices);

// The "request" of POST /v1/jobs that asks for the same.
nlohmann::json search_fields(const SearchRequest& request);
nlohmann::json range_fields(const RangeRequest& request);
nlohmann::json night_fields(const NightRequest& request);

}  // namespace moetune
