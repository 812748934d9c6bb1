// Fits the hyper-parameters of a ProductKernel to observations: the maximum a posteriori of the marginal
// likelihood with the signal's variance profiled out (Rasmussen, Williams 2006, chapter 5), climbed by
// resilient back-propagation (Riedmiller, Braun 1993), which needs no line search. Deterministic; stateless.
#pragma once

#include <functional>
#include <vector>

#include "search/strategies/product_kernel.h"

namespace moetune {

// `rows` holds axis_count() positions an observation; `values` are centred. Starts from the kernel's
// parameters and leaves the best ones found there, tabulated. Takes no further step once `is_over` returns true.
void fit_kernel(ProductKernel& kernel, const std::vector<Position>& rows, const std::vector<double>& values, int steps,
                const std::function<bool()>& is_over = {});

}  // namespace moetune
