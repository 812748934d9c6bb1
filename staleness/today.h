// The makings of results today, to be held against what stored ones were made with. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "keys/key.h"
#include "staleness/staleness.h"

namespace moetune {

// "2026-11-23T20:00:00Z" in seconds since 1970; 0 for another text.
std::int64_t seconds_of_date(const std::string& date);

// The sources, space, toolchain and driver that results of the key depend on today; judged_today has the judges.
MadeWith made_today(const WorkloadKey& key);
// Judgement::of_problem of the key, which takes a millisecond; "" of a recording, and if moetune does not know the
// kernel, the problem or the architecture.
std::string judged_today(const WorkloadKey& key);

}  // namespace moetune
