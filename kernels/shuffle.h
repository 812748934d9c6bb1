// A random order that is the same with every standard library, unlike std::shuffle's. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

namespace moetune {

// Fisher-Yates.
template <typename T>
void shuffle(std::vector<T>& items, std::mt19937_64& random) {
  for (std::size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[random() % left]);
}

}  // namespace moetune
