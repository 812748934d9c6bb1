// A winner that another has replaced. Plain data; Cache::history and Cache::roll_back do the work.
#pragma once

#include <cstdint>
#include <string>

namespace moetune {

// Why a winner was replaced, as it is stored.
inline constexpr const char* kReplacedFaster = "faster";        // a search found a faster configuration
inline constexpr const char* kReplacedSearch = "search";        // a search chose otherwise, or measured again
inline constexpr const char* kReplacedContended = "contended";  // by one measured on a quiet GPU
inline constexpr const char* kReplacedMerge = "merge";          // by a better one from another file
inline constexpr const char* kReplacedRollback = "rollback";    // by an earlier one

struct Generation {
  std::int64_t number = 0;  // of its workload; the first is 1
  std::string reason;       // why it was replaced
  std::string replaced_at;  // UTC, ISO 8601
  std::string config;
  double time_us = 0, interval_low_us = 0, interval_high_us = 0, default_time_us = 0;
  bool contended = false;
  std::string provenance;  // JSON, as it was: driver, device, clocks
  std::string stored_at;
};

}  // namespace moetune
