// The end of a list's entry, in a line. Pure functions.
#pragma once

#include <string>

#include "cli/output.h"
#include "workloads/tune_list.h"

namespace moetune {

std::string tuned_text(const TunedPoint& tuned, const Output& output);
std::string tuned_text(const TunedRange& tuned);

}  // namespace moetune
