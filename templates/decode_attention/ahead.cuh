// Asking L2 for a block's first tiles while the caller's previous kernel still runs (sm_90+): memory is busy while that one
// ends, and the block's first copies find their tiles near.
//
// No value that the previous kernel may still write is used before griddepcontrol.wait. To have it in L2 is safe: L2 holds
// the one copy of it that the device has, and a later store changes it there. The length and the pages that say what to ask
// for are hints, read past L1, which would keep them; where they have changed by the time they count, too much was asked for.
#pragma once

#include "templates/decode_attention/ring.cuh"

// The first `ahead` tiles of the block, by a producer warp.
__device__ __forceinline__ void ask_ahead(const Producer& producer, const TensorMap& k_map, const TensorMap& v_map,
                                          const i32* pages, const i32* lengths, Work work, int capacity, int ahead) {
  work.measure(min_of(__ldcg(lengths + work.batch), capacity));
  const int slab = threadIdx.x % kWarpSize;
  for (int tile = 0; tile < min_of(ahead, work.tiles); ++tile) {
    const int token = work.first_token + tile * work.step + slab * kSlabTokens;
    if (slab >= kSlabs || token >= work.length) continue;
    const i32 block = kPage == 0 ? work.batch : __ldcg(pages + token / kPageTokens);
    if (producer.takes_k) tma_prefetch_5d(k_map, 0, slab_row(token), 0, work.kv_head, block);
    if (producer.takes_v) tma_prefetch_5d(v_map, 0, slab_row(token), 0, work.kv_head, block);
  }
}
