// A cache with made-up results for reports: workloads of decode_kernel, whose space and templates moetune has, and of a
// kernel that nobody has. Belongs to one test.
#pragma once

#include <string>
#include <vector>

#include "cache/cache.h"
#include "jobs/session/kernel_files.h"
#include "tests/temporary_folder.h"

namespace moetune::testing {

inline HardwareKey h200() {
  return {.name = "NVIDIA H200",
          .compute_capability = 90,
          .sm_count = 132,
          .l2_bytes = 62914560,
          .memory_bytes = 150109880320,
          .sm_clock_khz = 1980000,
          .memory_clock_khz = 3201000,
          .driver = "580.1"};
}

inline std::string decode_config(const std::string& stages, const std::string& warps = "8") {
  return "loader=bulk,vector_bytes=16,tile_kib=32,stages=" + stages + ",warps=" + warps +
         ",producers=1,blocks_per_sm=1,l2=evict_first";
}

inline WorkloadKey decode_key(const std::string& elements = "1048576") {
  return {.kernel = "decode_kernel",
          .problem = "elements=" + elements + ",dtype=f32,write=none,passes=1",
          .hardware = h200(),
          .source_digest = kernel_source_digest("decode_kernel"),
          .toolchain = "nvrtc 13.0.88"};
}

class ReportedCache {
 public:
  ReportedCache() : cache_(Cache::open(path(), Cache::Mode::create)) {}

  Cache& cache() { return cache_; }
  std::string path() const { return folder_.file("report.db"); }
  std::string file(const std::string& name) const { return folder_.file(name); }

  std::int64_t add(const WorkloadKey& key, const std::string& family = "") { return cache_.workloads.id(key, family); }

  void trial(std::int64_t workload, const std::string& config, double time_us, const std::string& outcome = "ok") {
    cache_.trials.put(workload, {.config = config,
                                 .outcome = outcome,
                                 .time_us = time_us,
                                 .interval_low_us = 0.99 * time_us,
                                 .interval_high_us = 1.01 * time_us,
                                 .samples = 7,
                                 .facts = R"({"validate_s":0.5,"measure_s":1.5,"compile_s":3})",
                                 .provenance = "{}"});
  }

  WinnerRecord winner_record(const std::string& config, double time_us, const std::string& stored_at) const {
    WinnerRecord winner;
    winner.config = config;
    winner.plan = R"({"launches":[]})";
    winner.cubin = {1, 2, 3};
    winner.time_us = time_us;
    winner.interval_low_us = 0.999 * time_us;
    winner.interval_high_us = 1.001 * time_us;
    winner.default_time_us = 2 * time_us;
    winner.stored_at = stored_at;
    winner.provenance =
        R"({"strategy":"auto","seed":1,"trials":24,"device":"cuda:0","driver":"580.1","moetune":"0.1.0"})";
    return winner;
  }
  void winner(std::int64_t workload, const std::string& config, double time_us,
              const std::string& stored_at = "2026-11-22T10:00:00Z") {
    cache_.winners.put(workload, winner_record(config, time_us, stored_at));
  }

 private:
  TemporaryFolder folder_;
  Cache cache_;
};

}  // namespace moetune::testing
