// Decode attention: the newest 1 to 4 tokens of a sequence, O = softmax(scale * q K^T) V, with the queries
// and heads that share a KV head packed into rows. A body (how KV streams through a ring of shared memory) is
// combined with a math (math.cuh: what multiplies it); sequences may be split over blocks and combined by the
// last block, by a second kernel or inside a cluster.
#include "templates/decode_attention/shape.cuh"

#if BODY_TMA && PERSISTENT
#include "templates/decode_attention/body_persistent.cuh"
#elif BODY_TMA
#include "templates/decode_attention/body_tma.cuh"
#else
#include "templates/decode_attention/body_mma.cuh"
#endif
#include "templates/decode_attention/combine_kernel.cuh"
