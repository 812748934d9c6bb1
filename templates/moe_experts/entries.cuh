// The two launches of the bodies that read weights by their address. `kThreads` and `multiply_tiles` are the body's.
#pragma once

#include "templates/moe_experts/tiles.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, RESIDENTS)
    moe_experts_up(const Operand* x, i64 x_row, const float* x_scale, const int* sorted, const int* offsets,
                   const Operand* weights, i64 weight_row, i64 weight_expert, const void* weight_scales,
                   const Element* bias, Operand* between, float* between_scales, int tokens, int places,
                   int row_tiles) {
  multiply_tiles<Up>({x,
                      x_row,
                      x_scale,
                      sorted,
                      weights,
                      weight_row,
                      weight_expert,
                      weight_scales,
                      {between, between_scales, bias},
                      tokens},
                     offsets, places, row_tiles);
}

extern "C" __global__ void __launch_bounds__(kThreads, RESIDENTS)
    moe_experts_down(const Operand* between, const int* offsets, const Operand* weights, i64 weight_row,
                     i64 weight_expert, const void* weight_scales, const Element* bias,
                     const float* between_scales, Element* products, int places, int row_tiles) {
  multiply_tiles<Down>({between,
                        kIntermediate,
                        between_scales,
                        nullptr,
                        weights,
                        weight_row,
                        weight_expert,
                        weight_scales,
                        {products, nullptr, bias},
                        0},
                       offsets, places, row_tiles);
}
