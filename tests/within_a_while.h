// Waiting for what happens in its own time: a test that waits for a state is right on every machine, one that sleeps
// is right on those that are quick enough.
#pragma once

#include <chrono>
#include <thread>

#include "tests/sanitized.h"

namespace moetune::testing {

// Far longer than anything that a test waits for takes on a slow machine: it passes only where something is wrong.
inline constexpr std::chrono::seconds kPatience{kSanitized ? 600 : 120};

// Whether `condition` comes to hold. It is asked once more at the end, so that a test that was stopped for long does
// not fail for a wait that was none.
template <typename Condition>
bool within_a_while(const Condition& condition) {
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace moetune::testing
