// For tests that compile: skips, saying why, where the machine has no NVRTC. An NVRTC that is there and does
// not work is a failure, not a reason to skip.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "tuner/compile/nvrtc.h"

namespace moetune {

inline bool nvrtc_is_missing() {
  try {
    Nvrtc::load();
    return false;
  } catch (const BrokenEnvironment& error) {
    const std::string what = error.what();
    if (!what.starts_with("NVRTC (libnvrtc.so) not found")) throw;
    MESSAGE("skipped: " << what);
    return true;
  }
}

}  // namespace moetune
