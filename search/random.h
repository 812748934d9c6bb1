// A small deterministic generator (SplitMix64): the same numbers on every platform and standard library,
// which the distributions of <random> do not promise. Not for secrets. One owner; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace moetune {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound); bound > 0. Draws below the remainder are rejected, so that none is favoured.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t remainder = (0 - bound) % bound;
    for (;;) {
      if (const std::uint64_t draw = next(); draw >= remainder) return draw % bound;
    }
  }

  // Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace moetune
