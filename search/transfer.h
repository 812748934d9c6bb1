// Carries configurations of one problem over to another, as hints. A parameter that "keeps" a quantity in the
// space file takes the value that brings the quantity nearest, by ratio, to what it was there: where four
// times as many sequences give four times as many blocks, a quarter of the splits. All others stay as they
// are, except for one where that makes the point legal: the parts of a sequence that is no longer split are
// combined by nobody.
//
// Refers to the space file of its BoundSpaces. Deterministic. One owner; not thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "search/bound_space.h"
#include "search/legal_space.h"

namespace moetune {

class Transfer {
 public:
  Transfer(BoundSpace there, BoundSpace here) : there_(std::move(there)), here_(std::move(here)) {}

  // `point` lies in the domains of the space. The result does too, and is legal in `legal`, the
  // configurations of the problem here, where one more change can make it so; of several such changes each
  // has its turn from one call to the next.
  std::vector<Position> operator()(std::span<const Position> point, const LegalSpace& legal);

 private:
  Position nearest_value(std::size_t kept, std::span<const Position> point) const;
  void repair(std::vector<Position>& point, const LegalSpace& legal);

  BoundSpace there_, here_;
  std::size_t turn_ = 0;
};

}  // namespace moetune
