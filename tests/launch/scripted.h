// What the tests of launch/ share: the scripted driver with three GPUs, of which the last is another model.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "launch/driver.h"
#include "tests/paths.h"

namespace moetune::testing {

inline constexpr std::array<std::uint8_t, 5> kFakeCubin = {'f', 'a', 'k', 'e', 0};

inline const cuda::Context& scripted_context() {
  static const cuda::Context opened = [] {
    std::string script = "devices=3";
    // Capability 8.9, 6 SMs, shared memory of a block and of an SM, registers, threads, L2, clocks, bus.
    for (const char* attribute : {"75=8", "76=9", "16=6", "97=101376", "81=102400", "82=32768", "39=1536", "38=6291456",
                                  "13=2520000", "36=10501000", "37=384"})
      script += std::string(",attribute2.") + attribute;
    ::setenv("MOETUNE_LIBCUDA", paths::fake_libcuda(), 1);
    ::setenv("MOETUNE_FAKE_CUDA", script.c_str(), 1);
    cuda::initialize();
    return cuda::Context(0);
  }();
  return opened;
}

// A launch that doubles n floats at x into y.
template <typename X, typename Y>
Launch doubling(const std::string& entry, const X& x, const Y& y, std::int64_t n) {
  Launch launch;
  launch.entry = entry;
  launch.arguments = {{"x", x}, {"y", y}, {"n", n}};
  return launch;
}

}  // namespace moetune::testing
