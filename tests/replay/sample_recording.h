// A small recording with every kind of row, made by a seed.
#pragma once

#include "replay/recording.h"
#include "search/random.h"

namespace moetune {

inline Recording sample_recording(std::uint64_t seed = 1) {
  Random random(seed);
  std::vector<Parameter> parameters = {
      {"tile", {Value::integer(64), Value::integer(16), Value::integer(-4)}, "rows a block"},
      {"loader", {Value::named("plain", 0), Value::named("tma", 1)}, ""}};
  std::vector<Position> rows;
  std::vector<RecordedTrial> trials;
  for (Position tile = 0; tile < 3; ++tile) {
    for (Position loader = 0; loader < 2; ++loader) {
      if (tile == 1 && loader == 1) continue;
      rows.insert(rows.end(), {tile, loader});
      const Outcome outcome = trials.empty() ? Outcome::ok : kOutcomes[random.below(kOutcomes.size())];
      RecordedTrial trial{outcome, 0, {}, ""};
      if (has_time(outcome)) {
        trial.time_us = static_cast<float>(1 + random.unit() * 100);
        for (int i = 0; i < 7; ++i) trial.samples_us.push_back(trial.time_us + static_cast<float>(i - 3) / 8);
      } else {
        trial.message = "line one\n\"line two\" " + std::to_string(random.next());
      }
      trials.push_back(trial);
    }
  }
  HardwareKey hardware{"NVIDIA H200", 90, 132, 62914560, 150120366080, 1980000, 3201000, "gpu", "580.95.05"};
  DeviceLimits limits{.compute_capability = 90,
                      .sm_count = 132,
                      .shared_per_block = 232448,
                      .shared_per_sm = 233472,
                      .registers_per_sm = 65536,
                      .threads_per_sm = 2048,
                      .l2_bytes = 62914560,
                      .memory_bytes = 150120366080};
  return {.hardware = hardware,
          .limits = limits,
          .kernel = "axpy",
          .problem = "n=1024,dtype=bf16",
          .source_digest = "0123456789abcdef0123456789abcdef",
          .toolchain = "nvrtc 13.0.88",
          .recorded_at = "2025-11-02",
          .digest = "",
          .space = LegalSpace(parameters, rows),
          .trials = trials};
}

}  // namespace moetune
