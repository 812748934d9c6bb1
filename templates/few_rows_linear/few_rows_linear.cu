// A linear layer of few rows: out = x weight^T + bias. docs/small_operations.md has the tensors.
//
// Macros: those of products.cuh; LATE (1: the next kernel begins when the tiles are done).
#define PRODUCT_LANES LANES
#define PRODUCT_ROWS ROWS
#include "templates/few_rows_linear/products.cuh"

extern "C" __global__ void __launch_bounds__(few_rows::kThreads)
    few_rows_linear(const Element* x, const Element* weight, const Element* bias, Element* out, i64 x_row,
                    i64 weight_row, i64 out_row, i32 tokens) {
  if (!LATE) allow_dependent_launch();
  few_rows::multiply_rows(
      {x, weight, bias, x_row, weight_row, tokens}, dynamic_shared(),
      [&](int token, int output, float sum) { out[token * out_row + output] = Element::from_float(sum); });
  if (LATE) allow_dependent_launch();
}
