// The files of a kernel inside the binary: its space, and what its candidates compile from. Pure functions
// over embedded resources; thread-safe.
#pragma once

#include <string>

#include "search/space.h"

namespace moetune {

// spaces/NAME.json. Throws BadInput if it is broken or another kernel's.
Space load_space(const std::string& kernel);

// A digest of the templates that a kernel's candidates compile from, with all they include. The reference is
// left out, and so is the space: a trial is keyed by its whole configuration, which an edited constraint or
// doc string does not change.
std::string kernel_source_digest(const std::string& kernel);

}  // namespace moetune
