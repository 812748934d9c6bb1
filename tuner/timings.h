// A winner's times under every timing (keys/timing.h), and whether another configuration would have won there. Stored
// beside the winner as JSON. Plain values, pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "keys/timing.h"

namespace moetune {

// The result of the finalists' duel under one timing.
struct TimingResult {
  Timing timing = Timing::overlapped;
  double winner_us = 0;   // 0: it did not run
  double default_us = 0;  // 0 if there is none
  std::string fastest;    // a configuration; the winner's unless it loses here by more than a tie
  double fastest_us = 0;

  bool operator==(const TimingResult&) const = default;
};

std::string timings_text(const std::vector<TimingResult>& results);  // "" for none

// Empty for "", and for what no moetune writes.
std::vector<TimingResult> parse_timings(std::string_view text);

// The timings under which another configuration than `winner` is the fastest.
std::vector<Timing> differing_timings(const std::vector<TimingResult>& results, std::string_view winner);

}  // namespace moetune
