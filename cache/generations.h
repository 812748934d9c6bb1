// Chooses the kept generation, of a winner or of a range table, to go back to.
//
// Pure functions; thread-safe. Errors: BadInput if there is none such, with `place` ("workload 7 in FILE").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace moetune {

// The one of this number; without a number the first that `is_another` says yes to. `what` is kept: "winner".
template <typename Kept, typename IsAnother>
Kept chosen_generation(std::vector<Kept> kept, std::optional<std::int64_t> number, const std::string& place,
                       const char* what, const IsAnother& is_another) {
  for (Kept& one : kept) {
    if (number ? one.number == *number : is_another(one)) return std::move(one);
  }
  if (!number) throw BadInput(place + " has no earlier " + what + " to go back to");
  throw BadInput(place + " has no undamaged generation " + std::to_string(*number) + " to go back to");
}

[[noreturn]] inline void refuse_damaged_generation(std::int64_t number, const std::string& place) {
  throw BrokenEnvironment("the cubins of generation " + std::to_string(number) + " of " + place +
                          " are damaged; go back to another");
}

}  // namespace moetune
