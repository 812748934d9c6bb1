// The experts of a mixture-of-experts layer: out[t] = sum over k of weight * down(silu(gate(x[t])) * up(x[t])).
//
// Three launches, each of which may begin while the one before it drains: moe_experts_up gathers the rows of x in the
// order of experts and writes `between`, moe_experts_down writes `products`, moe_experts_combine adds up. A problem may
// have some of them alone, whose input or output then takes the place of what lies between.
#include "templates/moe_experts/product.cuh"

#if BODY_WGMMA
#include "templates/moe_experts/body_wgmma.cuh"
#else
#include "templates/moe_experts/body_mma.cuh"
#endif

#if !OUT_PLACES
#include "templates/moe_experts/combine.cuh"
#endif
