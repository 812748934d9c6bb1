// A unit's template, compiled for the CPU and loaded.
//
// The translation unit and its library lie in a temporary folder that goes with the process; the same text is
// compiled once. Modules stay loaded. Not thread-safe.
#pragma once

#include <set>
#include <string>

#include "kernels/plan.h"
#include "tests/simt/device/simt_runtime.h"

namespace moetune::testing {

// Entries are names of kernels, and of variables behind a &. Throws SimtError with the compiler's words.
simt::Module load_module(const CompileUnit& unit, const std::set<std::string>& entries, const simt::Runtime* runtime);

}  // namespace moetune::testing
