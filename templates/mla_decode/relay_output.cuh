// The outputs of body_relay.cuh: what warpgroups 1 and 2 add up, and how parts are put together.
#pragma once

#include "templates/common/cluster.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/quad.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/unrolled.cuh"
#include "templates/common/wgmma.cuh"
#include "templates/mla_decode/relay.cuh"

// O of 64 rows and kColumns columns from `column` on.
class Output {
 public:
  __device__ __forceinline__ Output() { set_zero(sum_); }

  __device__ __forceinline__ void add_tiles(const Relay& relay, const Place& own, const Work& work, int column) {
    RingPlace<kStages> place;
    for (int tile = 0; tile < work.tiles; ++tile) {
      add_tile(relay, place, column);
      release(relay, own, place.index);
      place.advance();
    }
  }

  // The segment's tiles, from `place` on, and what they come to.
  __device__ __forceinline__ void add_segment(const Relay& relay, const Place& own, const Work& work,
                                              const Outputs& outputs, int column, RingPlace<kStages>& place) {
    set_zero(sum_);
    float inverse[2] = {}, logarithms[2] = {minus_infinity(), minus_infinity()};
    for (int tile = 0; tile < work.tiles; ++tile) {
      add_tile(relay, place, column);
      if (tile + 1 == work.tiles) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          inverse[half] = relay.inverse(place.index)[row_of(half)];
          logarithms[half] = relay.logarithms(place.index)[row_of(half)];
        }
      }
      release(relay, own, place.index);
      place.advance();
    }
    scale(inverse);
    store<0>(work, outputs, column);
    if (column == 0 && threadIdx.x % 4 == 0) store_logarithms(work, outputs, logarithms);
  }

  // Divides the rows, and puts this block's share of the columns together with what the others of the cluster have.
  __device__ __forceinline__ void finish(const Relay& relay, const Place& own, const Work& work, const Outputs& outputs,
                                         int column) {
    const float inverse[2] = {relay.inverse()[row_of(0)], relay.inverse()[row_of(1)]};
    scale(inverse);
    if constexpr (kParts > 1) {
      if (own.part < own.parts) send_shares(relay, own);
      mbarrier_wait_cluster(relay.inbox(), 0);
    }
    float weights[kParts][2], logarithms[2];
    weigh(relay, own, weights, logarithms);
    keep_share(relay, own, work, outputs, weights, column);
    if (column > 0 || own.part > 0 || threadIdx.x % 4 != 0) return;
    store_logarithms(work, outputs, logarithms);
  }

 private:
  __device__ __forceinline__ void add_tile(const Relay& relay, const RingPlace<kStages>& place, int column) {
#pragma unroll
    for (int third = 0; third < kThirds; ++third) mbarrier_wait(relay.full(place.index, third), place.parity);
    mbarrier_wait(relay.scored(place.index), place.parity);
    const float factors[2] = {relay.factors(place.index)[row_of(0)], relay.factors(place.index)[row_of(1)]};
    u32 p[kSteps][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const uint4 words = *relay.scores(place.index, step);
      p[step][0] = words.x, p[step][1] = words.y, p[step][2] = words.z, p[step][3] = words.w;
    }
    if (__any_sync(kWholeWarp, factors[0] != 1 || factors[1] != 1)) scale(factors);
    const u64 v = WgmmaMatrix::columns(relay.tile(place.index) + column / 64 * kChunkBytes, kChunkBytes);
    wgmma_hold<kColumns / 8>(sum_);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int part = 0; part < kColumns / 128; ++part) {
        wgmma_registers<Operand, 128, true>(sum_ + 16 * part, p[step],
                                            WgmmaMatrix::moved(v, step * 2048 + part * 2 * kChunkBytes));
      }
    }
    wgmma_finish();
    wgmma_hold<kColumns / 8>(sum_);
  }

  // The stage's tile and P are read.
  static __device__ __forceinline__ void release(const Relay& relay, const Place& own, int stage) {
    mbarrier_arrive(relay.empty(stage));
    if constexpr (kPair > 1) {
      __syncwarp();
      const u32 lane = threadIdx.x % kWarpSize;
      if (lane < kPair && lane != own.row) mbarrier_arrive_block(relay.empty(stage), own.rank(lane, own.part));
    }
  }

  // By a lane of each row.
  static __device__ __forceinline__ void store_logarithms(const Work& work, const Outputs& outputs,
                                                          const float (&logarithms)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of(half);
      if (row >= work.rows) continue;
      if (work.groups() > 1) {
        outputs.partial_lse[work.partial_row(row)] = logarithms[half];
      } else if (kWantsLse) {
        outputs.lse[work.global_row(row)] = logarithms[half] * kLn2;
      }
    }
  }

  // The places of the other parts' pieces of columns, in the order of the parts.
  static __device__ __forceinline__ u32 inbox_piece(const Relay& relay, u32 from, u32 to, int piece) {
    const u32 slot = from < to ? from : from - 1;
    return relay.base + slot * kInboxBytes + (piece * 256 + threadIdx.x - 128) * 16;
  }

  template <u32 kPart>
  __device__ __forceinline__ void send(const Relay& relay, const Place& own) {
    const u32 rank = own.rank(own.row, kPart), barrier = cluster_address(relay.inbox(), rank);
#pragma unroll
    for (int piece = 0; piece < kShare; ++piece) {
      const float(&sum)[4] = sum_[kPart * kShare + piece];
      cluster_store(cluster_address(inbox_piece(relay, own.part, kPart, piece), rank), barrier,
                    make_float4(sum[0], sum[1], sum[2], sum[3]));
    }
  }

  // Sums stay in registers only where their places are constants: hence a function for each part.
  template <u32 kPart = 0>
  __device__ __forceinline__ void send_shares(const Relay& relay, const Place& own) {
    if (kPart != own.part) send<kPart>(relay, own);
    if constexpr (kPart + 1 < kParts) send_shares<kPart + 1>(relay, own);
  }

  template <u32 kPart = 0>
  __device__ __forceinline__ void keep_share(const Relay& relay, const Place& own, const Work& work,
                                             const Outputs& outputs, const float (&weights)[kParts][2], int column) {
    if (kPart == own.part) {
      if constexpr (kParts > 1) add_parts<kPart>(relay, own, weights);
      store<kPart>(work, outputs, column);
    }
    if constexpr (kPart + 1 < kParts) keep_share<kPart + 1>(relay, own, work, outputs, weights, column);
  }

  // How much each part counts, and the logarithms of all.
  static __device__ __forceinline__ void weigh(const Relay& relay, const Place& own, float (&weights)[kParts][2],
                                               float (&logarithms)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float highest = lowest(), sum = 0;
#pragma unroll
      for (u32 part = 0; part < kParts; ++part) {
        weights[part][half] =
            part < own.parts || part == own.part ? relay.logarithms(part)[row_of(half)] : minus_infinity();
        highest = fmaxf(highest, weights[part][half]);
      }
#pragma unroll
      for (u32 part = 0; part < kParts; ++part) {
        weights[part][half] = exp2_fast(weights[part][half] - highest);
        sum += weights[part][half];
      }
      logarithms[half] = highest + log2_fast(sum);
      const float inverse = inverse_of(sum);
#pragma unroll
      for (u32 part = 0; part < kParts; ++part) weights[part][half] *= inverse;
    }
  }

  template <u32 kPart>
  __device__ __forceinline__ void add_parts(const Relay& relay, const Place& own, const float (&weights)[kParts][2]) {
#pragma unroll
    for (int piece = 0; piece < kShare; ++piece) {
      float(&sum)[4] = sum_[kPart * kShare + piece];
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] *= weights[kPart][i / 2];
#pragma unroll
      for (u32 other = 0; other < kParts; ++other) {
        if (other == kPart || other >= own.parts) continue;
        const uint4 words = load_shared(inbox_piece(relay, other, kPart, piece));
        sum[0] = fmaf(__uint_as_float(words.x), weights[other][0], sum[0]);
        sum[1] = fmaf(__uint_as_float(words.y), weights[other][0], sum[1]);
        sum[2] = fmaf(__uint_as_float(words.z), weights[other][1], sum[2]);
        sum[3] = fmaf(__uint_as_float(words.w), weights[other][1], sum[3]);
      }
    }
  }

  template <u32 kPart>
  __device__ __forceinline__ void store(const Work& work, const Outputs& outputs, int column) {
    const int quad = threadIdx.x % 4, first = column + kPart * kShare * 8;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of(half);
      const bool own = row < work.rows;
      if (work.groups() > 1) {
        float* const to = outputs.partial_o + work.partial_row(row) * kLatent + first + 2 * quad;
        if (!own) continue;
#pragma unroll
        for (int piece = 0; piece < kShare; ++piece) {
          const float(&sum)[4] = sum_[kPart * kShare + piece];
          *reinterpret_cast<float2*>(to + 8 * piece) = make_float2(sum[2 * half], sum[2 * half + 1]);
        }
        continue;
      }
      Element* const to = outputs.o + work.offset(outputs.strides, own ? row : 0) + first + 8 * quad;
#pragma unroll
      for (int piece = 0; piece < kShare; piece += 4) {
        u32 words[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const float(&sum)[4] = sum_[kPart * kShare + piece + k];
          words[k] = Element::pack(sum[2 * half], sum[2 * half + 1]);
        }
        transpose_quad(words);
        if (own) *reinterpret_cast<uint4*>(to + 8 * piece) = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }

  __device__ __forceinline__ void scale(const float (&factors)[2]) {
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum_[j][i] *= factors[i / 2];
    }
  }

  float sum_[kColumns / 8][4];
};

// This part's logarithms to the others of the cluster. Called by warpgroup 0.
__device__ __forceinline__ void send_logarithms(const Relay& relay, const Place& own) {
  for (u32 i = threadIdx.x; i < kParts * kRows; i += 128) {
    const u32 part = i / kRows, row = i % kRows;
    if (part == own.part) continue;
    const u32 rank = own.rank(own.row, part);
    cluster_store(cluster_address(shared_address(relay.logarithms(own.part) + row), rank),
                  cluster_address(relay.inbox(), rank), relay.logarithms(own.part)[row]);
  }
}
