// Every legal point of a bound space, by depth-first search over partial assignments: parameters are bound in
// the order that is expected to leave the fewest, a constraint is tested as soon as its last parameter is
// bound, and a quantity from "let" is computed once a partial assignment, just before the first constraint
// that needs it.
//
// Stateless; deterministic. Throws BadInput past kMaxLegal rows, kMaxPositions, kMaxNodes and kMaxWork.
#pragma once

#include <cstdint>
#include <vector>

#include "search/bound_space.h"

namespace moetune {

// Partial assignments that one constraint rejected: of a constraint on one parameter its values, of one on
// none the empty assignment.
struct Rejections {
  std::uint64_t total = 0;
  std::uint64_t undefined = 0;  // of those, where the constraint had no value at all
};

struct EnumerationStats {
  std::uint64_t nodes = 0;             // partial assignments that were tested
  std::vector<std::size_t> order;      // parameters as they were bound; empty where none came to that
  std::vector<Rejections> rejections;  // by constraint
};

inline constexpr std::size_t kMaxLegal = 50'000'000;
inline constexpr std::size_t kMaxPositions = std::size_t{1} << 27;  // of all legal rows: 256 MiB
// Values that are tried, of parameters one after another: a few seconds of walking.
inline constexpr std::uint64_t kMaxNodes = 200'000'000;
// Instructions of the expressions that are evaluated for them, on the average.
inline constexpr std::uint64_t kMaxWork = 15;

// Rows of domain positions in lexicographic order of the declared parameters.
std::vector<Position> enumerate_rows(const BoundSpace& space, EnumerationStats* stats);

// How many there are, without keeping any, however many. Throws BadInput past `max_nodes`.
std::uint64_t count_rows(const BoundSpace& space, std::uint64_t max_nodes = kMaxNodes);

}  // namespace moetune
