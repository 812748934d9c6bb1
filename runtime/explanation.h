// What moetune_explain says of a choice: one JSON object. Thread-safe.
#pragma once

#include <string>

#include "runtime/family.h"

namespace moetune {

// Throws RuntimeError for a choice of no family.
std::string explanation(const Family& family, const Choice& choice);

}  // namespace moetune
