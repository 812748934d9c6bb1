// The problem and device that a space file's expressions are evaluated for. Throws BadInput where an expression names
// something that the environment lacks.
#pragma once

#include <vector>

#include "search/assignment.h"
#include "search/expression.h"
#include "search/space_file.h"

namespace moetune {

// What `environment` says of each slot of the file's vocabulary; parameters and lets are unknown.
std::vector<Binding> environment_bindings(const SpaceFile& file, const Assignment& environment);

// `bindings` are the environment's.
void require_known(const Expression& expression, const SpaceFile& file, const Assignment& environment,
                   const std::vector<Binding>& bindings);

}  // namespace moetune
