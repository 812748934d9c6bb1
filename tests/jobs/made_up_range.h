// Recordings of the router at many numbers of tokens, made up by formula: cubins that are good for few tokens and
// cubins that are good for many, and run-time values that must follow the number of tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "replay/compressed_file.h"
#include "replay/recording.h"

namespace moetune::testing {

inline constexpr const char* kMadeUpFamily = "";

inline double made_up_unit(const std::string& text) {
  return static_cast<double>(std::stoull(digest(text).substr(0, 8), nullptr, 16)) / 4294967296.0;
}

// A third of the cubins is best for few tokens, a third for some and a third for many; a quarter of each third loses
// nothing else. So a few cubins can serve all, and whatever the router's space is, a search finds them. Each launch has
// a number of tokens that it is best for.
inline double made_up_time(const Config& config, const std::vector<Parameter>& parameters, double tokens) {
  const ConfigParts parts = split_config(config, parameters);
  const double octave = std::log2(tokens), home = 2 + 4 * std::floor(3 * made_up_unit(parts.compiled.text()));
  const double quality = 0.08 * std::floor(4 * made_up_unit("quality " + parts.compiled.text()));
  const double launch = 12 * made_up_unit("launch " + parts.launch.text());
  return (5 + 0.01 * tokens) *
         (1 + quality + 0.04 * std::max(0.0, std::abs(octave - home) - 2) + 0.02 * std::abs(octave - launch));
}

// One of four cubins of the space, the same ones at every problem, and the default's: reading and searching all of them
// would be most of a test's time.
inline LegalSpace thin_out(const Space& space, const Assignment& environment) {
  const LegalSpace all = space.enumerate(environment);
  const std::optional<ConfigId> usual = all.find(space.default_config(environment).value());
  std::map<std::vector<Position>, bool> is_kept;  // by what is compiled: texts take longer
  std::vector<Position> rows;
  for (ConfigId id = 0; id < all.size(); ++id) {
    const auto row = all.point(id);
    std::vector<Position> compiled;
    for (std::size_t i = 0; i < row.size(); ++i)
      if (!all.parameters()[i].at_launch) compiled.push_back(row[i]);
    const auto [kept, is_new] = is_kept.try_emplace(std::move(compiled));
    if (is_new) {
      const std::string text = split_config(all.config(id), space.parameters()).compiled.text();
      kept->second = made_up_unit("kept " + text) < 0.25;
    }
    if (kept->second || id == usual) rows.insert(rows.end(), row.begin(), row.end());
  }
  return {all.parameters(), std::move(rows)};
}

inline Recording make_up_recording(std::int64_t tokens, const std::string& family) {
  const Kernel& kernel = find_kernel("router");
  Recording recording{
      .hardware = {"NVIDIA H200", 90, 132, 62914560, 150120366080, 1980000, 3201000, "gpu", "580.95.05"},
      .limits = {.compute_capability = 90,
                 .sm_count = 132,
                 .shared_per_block = 232448,
                 .shared_per_sm = 233472,
                 .registers_per_sm = 65536,
                 .threads_per_sm = 2048,
                 .l2_bytes = 62914560,
                 .memory_bytes = 150120366080},
      .kernel = "router",
      .source_digest = "0123456789abcdef0123456789abcdef",
      .toolchain = "nvrtc 13.0.88",
      .recorded_at = "2026-11-23",
      .digest = "",
      .space = LegalSpace({{"x", {Value::integer(1)}, ""}}, {0})};
  const std::string before = family.empty() ? "" : family + ",";
  const Problem problem = kernel.parse(before + "tokens=" + std::to_string(tokens));
  recording.problem = problem.text();
  const Space& space = shared_space("router");
  recording.space = thin_out(space, expression_environment(problem, recording.limits));
  for (ConfigId id = 0; id < recording.space.size(); ++id) {
    const double time = made_up_time(recording.space.config(id), space.parameters(), static_cast<double>(tokens));
    recording.trials.push_back({Outcome::ok, static_cast<float>(time), {}, ""});
  }
  return recording;
}

// Made up once a process: at every test they would take a quarter of its time.
inline const Recording& made_up_recording(std::int64_t tokens, const std::string& family = kMadeUpFamily) {
  static std::map<std::pair<std::string, std::int64_t>, Recording> made_up;
  const auto key = std::pair(family, tokens);
  const auto found = made_up.find(key);
  return found != made_up.end() ? found->second : made_up.emplace(key, make_up_recording(tokens, family)).first->second;
}

// Compressed once a process; later folders get copies of the bytes.
inline void write_made_up_range(const std::filesystem::path& folder, const std::string& family = kMadeUpFamily) {
  static std::map<std::string, std::map<std::string, std::string>> written;  // bytes by family and file
  std::filesystem::create_directories(folder);
  auto& files = written[family];
  if (files.empty()) {
    for (const std::int64_t tokens : {1, 3, 4, 8, 16, 32, 64, 100, 256, 400, 1024, 3000, 4096}) {
      const std::string name = "router_t" + std::to_string(tokens) + ".json.zst";
      write_recording(made_up_recording(tokens, family), folder / name);
      files[name] = read_whole_file(folder / name);
    }
  } else {
    for (const auto& [name, bytes] : files) std::ofstream(folder / name, std::ios::binary) << bytes;
  }
}

}  // namespace moetune::testing
