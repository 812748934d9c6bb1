// The files that a kernel's candidates compile from. A pure function over embedded resources; thread-safe.
#pragma once

#include <string>

namespace moetune {

// A digest of the templates that a kernel's candidates compile from, with all they include; of a described kernel also
// of how it is launched. The reference is
// left out, and so is the space: a trial is keyed by its whole configuration, which an edited constraint or
// doc string does not change.
std::string kernel_source_digest(const std::string& kernel);

}  // namespace moetune
