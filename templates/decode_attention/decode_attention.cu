// Decode attention: the newest 1 to 4 tokens of a sequence, O = softmax(scale * q K^T) V, with the queries
// and heads that share a KV head packed into the rows of mma.sync. KV is streamed once through a ring of
// shared memory; sequences may be split over blocks and combined by the last block or by a second kernel.
#include "templates/decode_attention/shape.cuh"

#if BODY_TMA && PERSISTENT
#include "templates/decode_attention/body_persistent.cuh"
#elif BODY_TMA
#include "templates/decode_attention/body_tma.cuh"
#else
#include "templates/decode_attention/body_mma.cuh"
#endif
#include "templates/decode_attention/combine_kernel.cuh"
