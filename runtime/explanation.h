// Explains a choice as one JSON object, for moetune_explain. Thread-safe.
#pragma once

#include <string>

#include "runtime/family.h"

namespace moetune {

// Throws RuntimeError for a choice of no family.
std::string explanation(const Family& family, const Choice& choice);

}  // namespace moetune
