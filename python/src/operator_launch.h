// One call of one of moetune.torch's operators: pick, bind and launch together.
#pragma once

#include "operator_table.h"

namespace moetune::python {

// The request to the helper.
enum Step : int64_t { kLaunched = 0, kOpenFamily = 1, kGrowWorkspace = 2 };

// Opens families and allocates workspaces: a function of Python, called with (step, device, operator, kernel,
// specialization, problem, extents, stream, capturing) when a call needs it. For kOpenFamily it returns the Family.
void set_operator_helper(ffi::Function helper);

// Enqueues the call, whose plan is the thread's own. Thread-safe; takes the GIL only if it asks the helper.
void launch_planned(CallPlan& plan, const Given& given);

}  // namespace moetune::python
