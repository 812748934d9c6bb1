// The body for sm_90a: three warps fill stages (ring.cuh), and warpgroups multiply them (sums.cuh). Two launches, one a
// product; or one for both (FUSED), whose blocks go on with the second product where the first is complete.
#pragma once

#include "templates/moe_experts/sums.cuh"
#include "templates/moe_experts/tickets.cuh"

template <typename Product>
__device__ __forceinline__ Ring<Product> begin_ring(u8* memory, const TensorMap& weights) {
  const Ring<Product> ring{shared_address(memory)};
  if (threadIdx.x == 0) {
    ring.init();
    tma_prefetch_descriptor(weights);
  }
  if constexpr (kPacked) {  // scales that no copy brings are no NaN: their values are zeros
    u32* const scales = reinterpret_cast<u32*>(memory + Stages<Product>::kScalesOffset);
    for (int i = threadIdx.x; i < Product::kStages * Stages<Product>::kScaleBytes / 4; i += blockDim.x) scales[i] = 0;
    fence_async_proxy();
  }
  return ring;
}

// Rows of x that lie together come through the copy engine, as those of `between` do.
template <typename Product>
using RowsOf = Either<Product::kGathers, const Operand*, TensorMap>;

__device__ __forceinline__ const Operand* address_of(const Operand* rows) { return rows; }
__device__ __forceinline__ const Operand* address_of(const TensorMap&) { return nullptr; }
__device__ __forceinline__ const TensorMap& map_of(const Operand*, const TensorMap& any) { return any; }
__device__ __forceinline__ const TensorMap& map_of(const TensorMap& rows, const TensorMap&) { return rows; }

// Broadcast, so that the compiler knows that all lanes of a warp agree, and with them all that follows from it.
__device__ __forceinline__ int warp_of_block() {
  return __shfl_sync(kWholeWarp, static_cast<int>(threadIdx.x) / kWarpSize, 0);
}

#if FUSED

// Calls `up` and `down` with the tiles of both products, as the tickets have them.
template <typename OfUp, typename OfDown>
__device__ __forceinline__ void for_tickets(const TileList& tiles, Tickets& tickets, OfUp up, OfDown down) {
  const int up_tiles = tiles.count<Up>();
  for (Tile tile;;) {
    const int ticket = tickets.take();
    if (ticket < up_tiles) {
      tiles.find<Up>(ticket, tile);
      up(tile);
    } else if (tiles.find<Down>(ticket - up_tiles, tile)) {
      down(tile);
    } else {
      return;
    }
  }
}

// The loading warp's part. The next ticket is asked for before the present tile is loaded.
__device__ __forceinline__ void load_tickets(const TileList& tiles, Tickets& tickets, const Counters& counters,
                                             Loader<Up>& up, Loader<Down>& down) {
  const bool leads = Loader<Up>::leads();
  const int up_tiles = tiles.count<Up>(), all_tiles = up_tiles + tiles.count<Down>();
  int drawn = leads ? static_cast<int>(atomicAdd(counters.next, 1u)) : 0;
  for (Tile tile;;) {
    const int ticket = __shfl_sync(kWholeWarp, drawn, 0);
    if (leads) tickets.post(ticket);
    if (ticket >= all_tiles) return;
    if (leads) drawn = static_cast<int>(atomicAdd(counters.next, 1u));
    if (ticket < up_tiles) {
      tiles.find<Up>(ticket, tile);
      up.load(tile);
      continue;
    }
    tiles.find<Down>(ticket - up_tiles, tile);
    const u32* const ready = counters.ready + tile.row;
    const bool is_ready = __shfl_sync(kWholeWarp, leads && load_acquire(ready) == Counters::kComplete ? 1 : 0, 0) != 0;
    if (is_ready) {
      if (leads) fence_async_proxy_global();
      down.load(tile);
      continue;
    }
    down.load_behind(tile, [&] {
      if (!leads) return;
      wait_until_equal(ready, Counters::kComplete);
      fence_async_proxy_global();
    });
  }
}

extern "C" __global__ void __launch_bounds__(kThreadsOf<Up>, RESIDENTS)
    moe_experts_products(const __grid_constant__ TensorMap up_weights, const __grid_constant__ TensorMap down_weights,
                         const __grid_constant__ TensorMap rows, const __grid_constant__ RowsOf<Up> x, i64 x_row,
                         const float* x_scale, const int* sorted, const int* offsets, const void* up_scale,
                         const void* down_scale, const Element* up_bias, const Element* down_bias, Between* between,
                         float* between_scales, Element* products, u32* counts, int tokens, int places, int row_tiles) {
  u8* const memory = dynamic_shared();
  const Ring<Up> up_ring = begin_ring<Up>(memory, up_weights);
  const Ring<Down> down_ring{up_ring.base};
  Tickets tickets(memory + Stages<Up>::kTicketsOffset);
  if (threadIdx.x == 0) tickets.init();
  wait_for_predecessor();
  allow_dependent_launch();
  const TileList tiles(memory + Stages<Up>::kTilesOffset);
  tiles.make<kThreadsOf<Up>>(offsets, places, row_tiles);
  const Counters counters(counts);
  const int warp = warp_of_block();
  RingPlace<Up::kStages> place;
  if (warp < WARPS) {
    Multiplier<Up> up(up_ring, up_scale, warp / 4, place);
    Multiplier<Down> down(down_ring, down_scale, warp / 4, place);
    for_tickets(
        tiles, tickets,
        [&](const Tile& tile) {
          up.multiply(tile, {between, between_scales, up_bias});
          __syncwarp();
          if (threadIdx.x % kWarpSize == 0) add_release(counters.ready + tile.row, 1);
        },
        [&](const Tile& tile) {
          down.multiply(tile, {products, nullptr, down_bias});
        });
  } else if (warp == kLoader) {
    Loader<Up> up(up_ring, up_weights, map_of(x, up_weights), nullptr, up_scale, place);
    Loader<Down> down(down_ring, down_weights, rows, between_scales, down_scale, place);
    load_tickets(tiles, tickets, counters, up, down);
  } else if constexpr (Up::kGathers) {
    Gatherer<Up> gatherer(up_ring, {address_of(x), x_row, x_scale, sorted, nullptr, 0, 0, nullptr, {}, tokens});
    for_tickets(
        tiles, tickets, [&](const Tile& tile) { gatherer.gather(tile); }, [&](const Tile&) { gatherer.pass(); });
  }
}

#else

template <typename Product, typename Work>
__device__ __forceinline__ void for_tiles(const TileList& tiles, Work work) {
  Tile tile;
  for (int index = blockIdx.x; tiles.find<Product>(index, tile); index += gridDim.x) work(tile);
}

// The first product of a problem, which may be the only one. Offsets and slots may have been written by the kernel in
// front: they are read behind the wait.
#if HAS_UP
#define FIRST_ENTRY moe_experts_up
using First = Up;
#else
#define FIRST_ENTRY moe_experts_down
using First = Down;
#endif
extern "C" __global__ void __launch_bounds__(kThreadsOf<First>, RESIDENTS)
    FIRST_ENTRY(const __grid_constant__ TensorMap weights, const __grid_constant__ RowsOf<First> x, i64 x_row,
                const float* x_scale, const int* sorted, const int* offsets, const void* weight_scales,
                const Element* biases, First::Out* values, float* value_scales, int tokens, int places, int row_tiles) {
  u8* const memory = dynamic_shared();
  const Ring<First> ring = begin_ring<First>(memory, weights);
  wait_for_predecessor();
  allow_dependent_launch();  // not before the wait: moe_experts_down trusts in what lies before it
  const TileList tiles(memory + Stages<First>::kTilesOffset);
  tiles.make<kThreadsOf<First>>(offsets, places, row_tiles);
  const int warp = warp_of_block();
  RingPlace<First::kStages> place;
  if (warp < WARPS) {
    Multiplier<First> multiplier(ring, weight_scales, warp / 4, place);
    for_tiles<First>(tiles, [&](const Tile& tile) { multiplier.multiply(tile, {values, value_scales, biases}); });
  } else if (warp == kLoader) {
    Loader<First> loader(ring, weights, map_of(x, weights), nullptr, weight_scales, place);
    for_tiles<First>(tiles, [&](const Tile& tile) { loader.load(tile); });
  } else if constexpr (First::kGathers) {
    Gatherer<First> gatherer(ring, {address_of(x), x_row, x_scale, sorted, nullptr, 0, 0, nullptr, {}, tokens});
    for_tiles<First>(tiles, [&](const Tile& tile) { gatherer.gather(tile); });
  }
}

#if HAS_UP && HAS_DOWN
// Offsets and weights were there before moe_experts_up let this begin: they are read before the wait, `between` and
// whatever `products` was for behind it.
extern "C" __global__ void __launch_bounds__(kThreadsOf<Down>, RESIDENTS)
    moe_experts_down(const __grid_constant__ TensorMap weights, const __grid_constant__ TensorMap rows,
                     const int* offsets, const void* down_scale, const Element* down_bias, const float* between_scales,
                     Element* products, int places, int row_tiles) {
  u8* const memory = dynamic_shared();
  const Ring<Down> ring = begin_ring<Down>(memory, weights);
  const TileList tiles(memory + Stages<Down>::kTilesOffset);
  tiles.make<kThreadsOf<Down>>(offsets, places, row_tiles);
  const int warp = warp_of_block();
  RingPlace<Down::kStages> place;
  if (warp == kLoader) {
    Loader<Down> loader(ring, weights, rows, between_scales, down_scale, place);
    bool is_first = true;
    for_tiles<Down>(tiles, [&](const Tile& tile) {
      is_first ? loader.load_behind(tile, wait_for_predecessor) : loader.load(tile);
      is_first = false;
    });
  }
  wait_for_predecessor();
  allow_dependent_launch();
  if (warp >= WARPS) return;
  Multiplier<Down> multiplier(ring, down_scale, warp / 4, place);
  for_tiles<Down>(tiles, [&](const Tile& tile) { multiplier.multiply(tile, {products, nullptr, down_bias}); });
}
#endif

#endif
