// Why a bound space has no legal configuration, for people. Pure function.
#pragma once

#include <string>

#include "search/bound_space.h"
#include "search/enumerate.h"

namespace moetune {

// One phrase from the statistics of an enumeration that found nothing; see Space::why_empty.
std::string explain_empty(const BoundSpace& space, const EnumerationStats& stats);

}  // namespace moetune
