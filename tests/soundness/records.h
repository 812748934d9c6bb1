// A sound winner and a sound range table of decode_attention on an H200, for tests that alter them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/version.h"
#include "cache/cache.h"
#include "cache/ranges.h"
#include "kernels/kernel_space.h"
#include "kernels/plan_interface.h"
#include "kernels/registry.h"
#include "ranges/range_table.h"
#include "soundness/stored_key.h"

namespace moetune::testing {

inline HardwareKey h200_key() {
  return {"NVIDIA H200", 90, 132, 62914560, 150109880320, 1980000, 3201000, "gpu", "580.159.04"};
}

inline const Kernel& decode() { return find_kernel("decode_attention"); }

inline Problem decode_problem(std::int64_t batch, std::int64_t context) {
  return stored_problem(decode(), "batch=" + std::to_string(batch) + ",q_heads=4,kv_heads=1,head_dim=64,context=" +
                                      std::to_string(context) + ",page=16");
}

inline std::string decode_config(int tile = 64) {
  return "body=mma,math=mma16,schedule=grid,residents=0,tile=" + std::to_string(tile) +
         ",warps=" + std::to_string(tile / 16) +
         ",stages=2,producers=0,row_tiles=1,query=shared,l2=evict_first,splits=1,combine=none,ahead=0";
}

inline StoredLaunch decode_launch(const Problem& problem, int tile = 64) {
  const Plan plan = decode().plan(shared_space("decode_attention").parse_config(decode_config(tile)), problem,
                                  stored_limits(h200_key()));
  return {decode_config(tile), nlohmann::json(plan).dump(), interface_digest(plan.unit, plan), {1, 2, 3}};
}

inline Workload decode_workload(std::int64_t batch, std::int64_t context, const std::string& sources) {
  const Problem problem = decode_problem(batch, context);
  return {1,
          {"decode_attention", problem.text(), h200_key(), sources, "nvrtc 13.0.88"},
          decode().specialization(problem).text()};
}

inline WinnerRecord decode_winner(const Workload& of) {
  const Problem problem = stored_problem(decode(), of.key);
  WinnerRecord winner;
  static_cast<StoredLaunch&>(winner) = decode_launch(problem);
  winner.default_launch = decode_launch(problem, 32);
  winner.time_us = 100;
  winner.interval_low_us = 99;
  winner.interval_high_us = 101;
  winner.default_time_us = 120;
  winner.roofline = 0.4;
  winner.provenance = nlohmann::json({{"moetune", version()}, {"driver", "580"}}).dump();
  winner.stored_at = "2026-11-20T10:00:00Z";
  winner.timings = R"({"alone":{"time_us":102,"default_us":121,"fastest":"x","fastest_us":101}})";
  return winner;
}

inline RangeTable decode_table() {
  RangeTable table{.ranges = "batch=2..32,context=64..1024", .bound = 0.02, .kept = true};
  for (const std::int64_t batch : {2, 8, 32}) {
    for (const std::int64_t context : {64, 256, 1024})
      table.cells.push_back({decode_problem(batch, context).text(), decode_config(batch < 32 ? 64 : 32), 10.1, 12, 10});
  }
  table.certificate = {12, 0.004, 0.021, 0.03, -0.1};
  return table;
}

inline RangeKey decode_range_key(const std::string& sources) {
  return {"decode_attention", decode().specialization(decode_problem(2, 64)).text(), h200_key(), sources,
          "nvrtc 13.0.88"};
}

inline RangeRecord decode_record(const std::string& table) {
  return {table,
          "",
          {decode_launch(decode_problem(2, 64), 64), decode_launch(decode_problem(2, 64), 32)},
          "2026-11-20T10:00:00Z",
          "{}"};
}

}  // namespace moetune::testing
