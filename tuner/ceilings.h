// What a GPU allows at best: measured once (jobs/calibrate_job.h), kept in the cache, and what roofline
// fractions are fractions of.
#pragma once

#include <optional>

#include "cache/cache.h"

namespace moetune {

struct Ceilings {
  std::optional<double> read_tb_s;  // a pure read
  std::optional<double> copy_tb_s;  // read and write together
  std::optional<double> launch_us;  // a kernel that reads one element, a launch after the other

  // The time of the bytes alone: launches that overlap with the one before may hide what a launch costs, but
  // not this. nullopt where the read ceiling is unknown or nothing is read.
  std::optional<double> read_us(double bytes) const;
  // The least time in which one launch by itself reads them: the same, and launch_us where it is known.
  std::optional<double> floor_us(double bytes) const;
};

// Those that the cache holds for `hardware`; none where `cache` is null.
Ceilings stored_ceilings(const Cache* cache, const HardwareKey& hardware);

// Keeps those that are known; the others stay as they are.
void store_ceilings(Cache& cache, const HardwareKey& hardware, const Ceilings& ceilings);

}  // namespace moetune
