// Explains a choice as one JSON object, for moetune_explain. Thread-safe.
#pragma once

#include <string>

#include "runtime/family.h"

namespace moetune {

// Throws RuntimeError for a choice that no family gave.
std::string explanation(const Family& family, const Choice& choice);

}  // namespace moetune
