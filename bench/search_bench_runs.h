// Strategies against recorded spaces, many seeds each, on several threads. Every run has a searcher of its
// own: nothing is shared between seeds but the recordings, which are immutable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/limits.h"
#include "keys/key.h"
#include "search/legal_space.h"
#include "search/searcher.h"

namespace moetune::bench {

struct RecordedSpace {
  std::string name;
  LegalSpace space;
  std::vector<Observation> outcomes;  // by ConfigId
  double optimum_us = 0;
  WorkloadKey key;      // of what it is a recording
  DeviceLimits limits;  // zeros where it does not say
  double floor_us = 0;  // the least time that the device allows; 0 where unknown
};

// Files, or folders of which every recording is read, and those inside moetune if `shipped`. Throws BadInput.
std::vector<RecordedSpace> read_spaces(const std::vector<std::filesystem::path>& paths, bool shipped);

struct Runs {
  std::string strategy;
  std::size_t space = 0;
  std::vector<std::vector<double>> best_us;  // by seed, after each trial; of equal lengths
  double engine_ms_per_trial = 0;            // CPU time of the strategy
};

struct Plan {
  std::vector<std::string> strategies;
  std::size_t seeds = 50;
  std::uint64_t first_seed = 1;
  std::size_t budget = 200;
  std::size_t in_flight = 1;
  std::size_t threads = 1;
};

// By strategy, then by space. Throws std::logic_error where a strategy asks twice or outside the space.
std::vector<Runs> run_all(const Plan& plan, const std::vector<RecordedSpace>& spaces);

}  // namespace moetune::bench
