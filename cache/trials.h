// Measurements in a cache file: trials of workloads, and the ceilings of devices.
//
// A part of an open Cache (cache/cache.h), which must outlive it; threads and errors as there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "keys/key.h"

namespace moetune {

struct CacheFile;

struct TrialRecord {
  std::string config;   // canonical text
  std::string outcome;  // outcome_name
  std::string message;  // why it failed; empty for ok
  double time_us = 0;   // median; 0 where there is none
  // 95% confidence of the median; of fewer than six samples their range (base/statistics.h)
  double interval_low_us = 0, interval_high_us = 0;
  int samples = 0;
  std::string facts;       // JSON: registers, spills, shared memory, seconds spent
  std::string provenance;  // JSON: strategy, seed, clocks
  // Measured while somebody else used the GPU, or before a canary showed that it works.
  bool contended = false;
};

class Trials {
 public:
  explicit Trials(CacheFile& file) : file_(&file) {}

  // A later trial of the same configuration replaces the earlier one.
  void put(std::int64_t workload, const TrialRecord& trial);
  // In the order they were first stored; one that does not match its digest, or whose workload or hardware does not,
  // counts as absent.
  std::vector<TrialRecord> of(std::int64_t workload) const;
  std::vector<std::string> configs(std::int64_t workload) const;  // of all of them, the damaged ones with the others
  // How many there are of each outcome, the damaged ones with the others.
  std::map<std::string, std::size_t> counts(std::int64_t workload) const;
  // Throws BrokenEnvironment, and forgets nothing, while another search works on the workload.
  void clear(std::int64_t workload);

  // Named measurements of one device, such as the read ceiling.
  void put_calibration(const HardwareKey& hardware, const std::string& name, double value);
  std::map<std::string, double> calibrations(const HardwareKey& hardware) const;

 private:
  CacheFile* file_;
};

}  // namespace moetune
