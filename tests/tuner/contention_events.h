// What a job reports of somebody else's work on its GPU, as tests compare it.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tuner/events.h"

namespace moetune {

inline constexpr int kForEver = 1'000'000;  // more canaries than a test runs

// Appends "disturbed", "quiet" or "contended" if the event is one of these.
inline void note_contention(const Event& event, std::vector<std::string>& notes) {
  if (std::holds_alternative<GpuDisturbed>(event.what)) notes.emplace_back("disturbed");
  if (std::holds_alternative<GpuQuiet>(event.what)) notes.emplace_back("quiet");
  if (std::holds_alternative<GpuContended>(event.what)) notes.emplace_back("contended");
}

}  // namespace moetune
