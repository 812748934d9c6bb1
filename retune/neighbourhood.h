// The part of a space that a patch searches: near the winner. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "search/legal_space.h"
#include "tuner/tune.h"

namespace moetune {

inline constexpr std::size_t kPatchChanges = 2;  // parameters in which a neighbour may differ from the winner
inline constexpr std::size_t kPatchShare = 5;    // a patch has this part of a whole search's trials

// The configurations of `space` that differ from `winner` in at most kPatchChanges parameters, and those of `also` that
// the space has. All texts are canonical. The whole space if today's does not know the winner's values.
LegalSpace neighbourhood(const LegalSpace& space, const std::string& winner, const std::vector<std::string>& also);

// Numbers the trials of a search over a part of `space` as `space` does.
void renumber(TuneResult& result, const LegalSpace& part, const LegalSpace& space);

}  // namespace moetune
