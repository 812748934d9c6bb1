// The tuning space of a kernel, from its embedded file spaces/NAME.json.
#pragma once

#include <string>

#include "search/space.h"

namespace moetune {

// Reads and parses the file. Throws BadInput if it is not the kernel's.
Space load_space(const std::string& kernel);

// The same, parsed once a process. Thread-safe; the Space lives until the process ends.
const Space& shared_space(const std::string& kernel);

}  // namespace moetune
