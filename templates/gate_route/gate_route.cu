// A gate and the routing behind it for few tokens: logits = x weight^T + bias, and each token's best experts with their
// weights. docs/router.md has the meaning of the options.
//
// Blocks share the experts as those of few_rows_linear share outputs. The last of a group of tokens to store its logits
// routes these tokens; all tokens of a group are taken by all blocks of its column of the grid.
//
// Macros: those of products.cuh and shape.cuh; LATE (1: the next kernel begins when all is done), MERGES (how the best
// are found: 1 merge, 0 reduce), SELECT_LANES, SELECT_VECTOR (lanes that share a token's logits, and logits of each).
#define PREFETCH 0
#include "templates/few_rows_linear/products.cuh"
#include "templates/gate_route/shape.cuh"

#define SCHEDULE rows
#define DEPENDENTS early
#define PAD last
#define LANES SELECT_LANES
#define VECTOR SELECT_VECTOR
#define ROWS 1
#if MERGES
#define SELECT merge
#else
#define SELECT reduce
#endif
#include "templates/router/arrival.cuh"
#include "templates/router/route.cuh"

extern "C" __global__ void __launch_bounds__(kThreads)
    gate_route(const Element* x, const Element* weight, const Element* bias, const float* correction, Logit* logits,
               Id* ids, float* weights, GridState* states, i64 x_row, i64 weight_row, i32 tokens, float scale) {
  if (!LATE) allow_dependent_launch();
  few_rows::multiply_rows(
      {x, weight, bias, x_row, weight_row, tokens}, dynamic_shared(),
      [&](int token, int expert, float sum) { logits[token * kExperts + expert] = Logit::from_float(sum); });
  __shared__ int flag;
  GridState* const state = states + blockIdx.y;
  if (!arrives_last(state, flag)) return;
  if (threadIdx.x == 0) state->blocks_done = 0;
  const int first = few_rows::first_token();
  route({logits, correction, ids, weights, kExperts, tokens, scale}, first, min_of(first + few_rows::kTokens, tokens),
        [](int, int, int) {});
  if (LATE) allow_dependent_launch();
}
