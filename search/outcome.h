// How one trial ended. Failures are search data: they teach a strategy where not to look.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace moetune {

enum class Outcome {
  ok,              // compiled, right, measured
  pruned,          // refused on static facts before it was launched; costs no trial
  compile_failed,  // NVRTC or ptxas refused it, or took longer than allowed; or its cubin would keep state
  launch_failed,   // a CUDA error from load, launch or run
  wrong_result,    // ran, but its output differs from the reference, or it wrote outside its buffers
  timed_out,       // ran longer than the candidate's time limit
  crashed,         // the worker process died under it
  too_slow,        // right, but dropped from measuring as clearly slower than the best; its time is rough
  out_of_memory,   // a CUDA error from load, launch or run: too little device memory was free
  implausible,     // faster than the GPU can be: it has not done its work, whatever its output says
};

inline constexpr std::array kOutcomes = {
    Outcome::ok,        Outcome::pruned,  Outcome::compile_failed, Outcome::launch_failed, Outcome::wrong_result,
    Outcome::timed_out, Outcome::crashed, Outcome::too_slow,       Outcome::out_of_memory, Outcome::implausible};

std::string_view outcome_name(Outcome outcome);  // "ok", "compile_failed", ...
std::optional<Outcome> outcome_from_name(std::string_view name);

// Whether the trial carries a time that can be compared with others (ok and too_slow do).
inline bool has_time(Outcome outcome) { return outcome == Outcome::ok || outcome == Outcome::too_slow; }

// Whether the trial took its worker with it: the configuration's fault, or the machine's.
inline bool is_breakdown(Outcome outcome) { return outcome == Outcome::timed_out || outcome == Outcome::crashed; }

}  // namespace moetune
