// Prefill attention: the new tokens of each sequence against all of its tokens, O = softmax(scale * Q K^T) V, causal or
// not, over contiguous or paged KV. The tokens of few rows may be split over blocks, which a second kernel adds up.
#include "templates/prefill_attention/shape.cuh"

#if BODY_WGMMA
#include "templates/prefill_attention/body_wgmma.cuh"
#else
#include "templates/prefill_attention/body_mma.cuh"
#endif

#include "templates/prefill_attention/combine_kernel.cuh"
