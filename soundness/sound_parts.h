// Checks that winners and range tables share. For soundness/ alone; pure functions, each returns what is wrong, ""
// for nothing.
#pragma once

#include <string>

#include "kernels/kernel.h"
#include "keys/key.h"

namespace moetune {

std::string wrong_hardware(const HardwareKey& hardware);
std::string wrong_date(const std::string& stored_at);
// By the hardware's data sheet (soundness/peak.h).
std::string too_fast(double time_us, const Problem& problem, const Kernel& kernel, const HardwareKey& hardware,
                     Timing timing);

// The first answer that is not ""; later checks do not run.
template <typename First, typename... Others>
std::string first_wrong(const First& first, const Others&... others) {
  std::string wrong = first();
  if constexpr (sizeof...(others) > 0) {
    if (wrong.empty()) return first_wrong(others...);
  }
  return wrong;
}

}  // namespace moetune
