// Body `relay` (sm_90a): 64 packed rows, padding included, and four warpgroups that hand tiles on to each other.
//
//   warpgroup 0     S = Q K^T of a tile, softmax; P and the factors of O to shared memory
//   warpgroups 1, 2 O += P V, of 256 columns of the latent each
//   warpgroup 3     one warp asks the copy engine for tiles; or all its warps gather and widen their rows
//
// Barriers of a stage: `full` counts the bytes of a third of the chunks, so that S begins before the whole tile is
// there, or the threads of warpgroup 3; at `scored` the threads of warpgroup 0 arrive once a tile, when P is there and
// no row behind the last token holds NaN; at `empty` those of warpgroups 1 and 2, each for the P that it has read, and
// a lane of each of their warps in the other blocks of a pair. Warpgroup 0 is one tile ahead, so that the tensor cores
// are busy during softmax.
//
// A cluster has PAIR blocks of rows, which bring each other half of each tile, and for each of them PARTS parts of the
// tokens. At the end each part gets a share of the columns of the others, by distributed shared memory, and puts them
// together; what several clusters have of a row goes through memory, as the parts of single blocks do.
#pragma once

#include "templates/common/barrier.cuh"
#include "templates/common/dependent_launch.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/multicast.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/ring_place.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/unrolled.cuh"
#include "templates/common/warp_registers.cuh"
#include "templates/common/wgmma.cuh"
#include "templates/mla_decode/relay_output.cuh"

// The page of this lane's box of a tile. Nothing is looked up from the end on.
__device__ __forceinline__ i32 find_page(const i32* pages, const Work& work, int tile) {
  const int box = threadIdx.x % kWarpSize, token = (work.first_tile + tile) * kTile + box * kBoxTokens;
  return box < kBoxes && token < work.length ? pages[token / kPage] : 0;
}

__device__ __forceinline__ void produce(const Relay& relay, const Place& own, const TensorMap& kv, const i32* pages,
                                        const Work& work, u64 policy, RingPlace<kStages>& place) {
  const int lane = threadIdx.x % kWarpSize;
  i32 page = find_page(pages, work, 0);
  for (int tile = 0; tile < work.tiles; ++tile) {
    const i32 next = tile + 1 < work.tiles ? find_page(pages, work, tile + 1) : 0;
    const int first = (work.first_tile + tile) * kTile;
    const int boxes = min_of(kBoxes, ceil_div(work.length - first, kBoxTokens));
    const u32 to = relay.tile(place.index);
    mbarrier_wait(relay.empty(place.index), place.parity ^ 1);
    if (lane < kThirds) {
      mbarrier_arrive_expect(relay.full(place.index, lane), boxes * kBoxTokens * kThirdChunks * 128);
    }
    __syncwarp();
    if constexpr (kBoxes * kPair == 1) {
      const i32 from = __shfl_sync(kWholeWarp, page, 0);
      if (lane < kThirds) {
        tma_load_5d(to + lane * kThirdChunks * kChunkBytes, kv, relay.full(place.index, lane), policy, 0, first % kPage,
                    lane * kThirdChunks, 0, from);
      }
    } else {
#pragma unroll
      for (int i = 0; i < ceil_div(kBoxes * kChunks, kWarpSize * kPair); ++i) {
        const int copy = (i * kWarpSize + lane) * kPair + static_cast<int>(own.row), chunk = copy / kBoxes,
                  box = copy % kBoxes;
        const i32 from = __shfl_sync(kWholeWarp, page, box);
        if (chunk >= kChunks || box >= boxes) continue;
        const u32 target = to + chunk * kChunkBytes + box * kBoxTokens * 128,
                  full = relay.full(place.index, chunk / kThirdChunks);
        if constexpr (kPair == 1) {
          tma_load_5d(target, kv, full, policy, 0, first % kPage, chunk, 0, from);
        } else {
          const u16 both = static_cast<u16>(((1u << kPair) - 1) << own.rank(0, own.part));
          tma_multicast_5d(target, kv, full, both, policy, 0, first % kPage, chunk, 0, from);
        }
      }
    }
    page = next;
    place.advance();
  }
}

// Called by warpgroup 3.
__device__ __forceinline__ void gather(const Relay& relay, const TokenRows& rows, const Work& work) {
  const Copies copies(relay.shared, rows, threadIdx.x % 128);
  RingPlace<kStages> asked, place;
  auto next = copies.places(work, 0);
  const auto ask = [&](int tile) {
    const auto places = next;
    next = copies.places(work, tile + 1);
    if (tile < work.tiles) {
      if constexpr (!kNarrow) mbarrier_wait(relay.empty(asked.index), asked.parity ^ 1);
      copies.ask(kNarrow ? kRawOffset + tile % STAGES * Copies::kRawBytes : asked.index * kTileBytes, places);
      asked.advance();
    }
    cp_async_commit();
  };
  for (int tile = 0; tile < kAhead; ++tile) ask(tile);
  for (int tile = 0; tile < work.tiles; ++tile) {
    cp_async_wait<kAhead - 1>();
    if constexpr (kNarrow) {
      mbarrier_wait(relay.empty(place.index), place.parity ^ 1);
      copies.widen(kRawOffset + tile % STAGES * Copies::kRawBytes, place.index * kTileBytes);
    }
    fence_async_proxy();
    mbarrier_arrive(relay.full(place.index, 0));
    place.advance();
    ask(tile + kAhead);
  }
}

// The latent part of the rows, zeros for padding. Called by kMathThreads threads, which synchronize.
__device__ __forceinline__ void stage_query(const Relay& relay, const Element* q, const RowStrides& strides,
                                            const Work& work) {
  for (int i = threadIdx.x; i < kQueryRows * (kLatent / 8); i += kMathThreads) {
    const int row = i / (kLatent / 8), unit = i % (kLatent / 8);
    uint4 value = make_uint4(0, 0, 0, 0);
    if (row < work.rows) value = to_operand(reinterpret_cast<const uint4*>(q + work.offset(strides, row))[unit]);
    *reinterpret_cast<uint4*>(relay.shared + kQueryOffset + unit_offset(kQueryRows, row, unit)) = value;
  }
  fence_async_proxy();
}

class Scores {
 public:
  __device__ __forceinline__ explicit Scores(float scale) : scale_log2_(logit_factor(scale)), negates_(scale < 0) {}

  // Reads the part of the queries that carries the position, which stays in registers.
  __device__ __forceinline__ void read_query(const Element* q, const RowStrides& strides, const Work& work) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool own = row_of(half) < work.rows;
      const Element* const row = q + (own ? work.offset(strides, row_of(half)) : 0) + kLatent;
#pragma unroll
      for (int step = 0; step < kRope / 16; ++step) {
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const int column = step * 16 + side * 8 + threadIdx.x % 4 * 2;
          rope_[step][half + 2 * side] = own ? to_operand(*reinterpret_cast<const u32*>(row + column)) : 0;
        }
      }
    }
  }

  __device__ __forceinline__ void begin(const Work& work) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      maximum_[half] = lowest();
      sum_[half] = 0;
      end_[half] = work.end(row_of(half));
    }
  }

  // S of the tile at `place`, as its thirds come.
  __device__ __forceinline__ void multiply(const Relay& relay, const RingPlace<kStages>& place) {
    const u64 q = WgmmaMatrix::rows(relay.base + kQueryOffset), k = WgmmaMatrix::rows(relay.tile(place.index));
    wgmma_hold<kTile / 8>(scores_);
#pragma unroll
    for (int step = 0; step < kLatent / 16; ++step) {
      if (step % (4 * kThirdChunks) == 0) {
        mbarrier_wait(relay.full(place.index, step / (4 * kThirdChunks)), place.parity);
        wgmma_begin();
      }
      wgmma<Operand, kTile, false, false>(scores_, WgmmaMatrix::moved(q, step / 4 * kQueryChunkBytes + step % 4 * 32),
                                          WgmmaMatrix::moved(k, step / 4 * kChunkBytes + step % 4 * 32), step > 0);
    }
#pragma unroll
    for (int step = 0; step < kRope / 16; ++step) {
      wgmma_registers<Operand, kTile, false>(scores_, rope_[step],
                                             WgmmaMatrix::moved(k, kLatentChunks * kChunkBytes + step * 32));
    }
    wgmma_finish();
    wgmma_hold<kTile / 8>(scores_);
    if (negates_) each_value(scores_, [](float& score) { score = -score; });
  }

  // P for the other warpgroups, and by how much O is to be rescaled before it is added. `first` is the tile's first
  // token; of kChosen those without a bit in `present` are none.
  __device__ __forceinline__ void hand_on(const Relay& relay, int stage, int first, int length, u64 present) {
    if (kChosen ? present != kWholeTile : first + kTile > length - (kQueries - 1)) mask(first, present);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float highest = minus_infinity();
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j) {
        highest = fmaxf(highest, fmaxf(scores_[j][2 * half], scores_[j][2 * half + 1]));
      }
      highest = max_across<4>(highest) * scale_log2_;
      // Padding rows may be of uninitialized shared memory: their factor stays 1.
      const bool raises = highest > maximum_[half] + kLag && (kQueryRows == kRows || row_of(half) < kQueryRows);
      const float raised = raises ? highest : maximum_[half];
      const float factor = exp2_fast(maximum_[half] - raised);
      maximum_[half] = raised;
      if (threadIdx.x % 4 == 0) relay.factors(stage)[row_of(half)] = factor;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores_[j][i] = exp2_fast(fmaf(scores_[j][i], scale_log2_, -raised));
          sum += scores_[j][i];
        }
      }
      sum_[half] = sum_[half] * factor + sum;
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const float(&left)[4] = scores_[2 * step], (&right)[4] = scores_[2 * step + 1];
      *relay.scores(stage, step) = make_uint4(Operand::pack(left[0], left[1]), Operand::pack(left[2], left[3]),
                                              Operand::pack(right[0], right[1]), Operand::pack(right[2], right[3]));
    }
  }

  // Stores the factors of the rows' outputs, and the rows' logarithms.
  __device__ __forceinline__ void finish(float* inverse, float* logarithms, float value_scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = sum_across<4>(sum_[half]);
      if (threadIdx.x % 4 != 0) continue;
      inverse[row_of(half)] = inverse_of(sum) * value_scale;
      logarithms[row_of(half)] = maximum_[half] + log2_fast(sum);
    }
  }

 private:
  static constexpr u64 kWholeTile = ~u64{0} >> (64 - kTile);

  __device__ __forceinline__ void mask(int first, u64 present) {
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = j * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
        const bool sees = kChosen ? (present >> token & 1) != 0 : first + token < end_[i / 2];
        if (!sees) scores_[j][i] = minus_infinity();
      }
    }
  }

  float scale_log2_;
  bool negates_;
  int end_[2];
  u32 rope_[kRope / 16][4];
  float scores_[kTile / 8][4];
  float maximum_[2];
  float sum_[2];  // this lane's share
};

// Zeros for V behind the last token: P is 0 there, and 0 times NaN is NaN. Called by warpgroup 0, whose warps may still
// read the tile as K.
__device__ __forceinline__ void clear_tail(const Relay& relay, int stage, int valid) {
  named_barrier_sync(3, 128);
  for (int i = threadIdx.x; i < (kTile - valid) * kLatentChunks * 8; i += 128) {
    const int unit = i % 8, chunk = i / 8 % kLatentChunks, token = valid + i / (8 * kLatentChunks);
    *reinterpret_cast<uint4*>(relay.shared + stage * kTileBytes + chunk * kChunkBytes + token * 128 + unit * 16) =
        make_uint4(0, 0, 0, 0);
  }
  fence_async_proxy();
}

__device__ __forceinline__ void score_tiles(const Relay& relay, const TokenRows& rows, const Work& work,
                                            Scores& scores) {
  RingPlace<kStages> place;
  for (int tile = 0; tile < work.tiles; ++tile) {
    const int first = (work.first_tile + tile) * kTile;
    u64 present = 0;
    if constexpr (kChosen) present = present_tokens(rows, work, tile);
    scores.multiply(relay, place);
    if (!kGathers && work.length - first < kTile) clear_tail(relay, place.index, work.length - first);
    scores.hand_on(relay, place.index, first, work.length, present);
    mbarrier_arrive(relay.scored(place.index));
    place.advance();
  }
}

constexpr int kBlockThreads = 512;
// Registers of a thread of warpgroup 0, of 1 and 2, and of 3: 512 in all at most.
constexpr int kScoreRegisters = kNarrow ? 96 : 112, kOutputRegisters = kGathers || kSpans ? 176 : 184,
              kCopyRegisters = kNarrow              ? 64
                               : kGathers || kSpans ? 48
                                                    : 24;

// Before anything is read.
__device__ __forceinline__ void begin(u8* shared) {
  if (threadIdx.x == kMathThreads) Relay(shared).initialize();
  if constexpr (kCluster > 1) cluster_arrive_relaxed();
  __syncthreads();
  if constexpr (kCluster > 1) cluster_wait();
}

// The whole work of a block. Warps of warpgroup 3 call `bring`.
template <typename Bring>
__device__ __forceinline__ void attend(const Relay& relay, const Element* q, const RowStrides& q_strides,
                                       const TokenRows& rows, const Work& work, const Outputs& outputs, float scale,
                                       const Bring& bring) {
  Place own;
  own.parts = min_of(kParts, work.splits - work.split + static_cast<int>(own.part));
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == 3) {
    give_registers<kCopyRegisters>();
    if (kParts > 1 && threadIdx.x == kMathThreads) {
      const u32 others = own.parts - (own.part < own.parts);
      mbarrier_arrive_expect(relay.inbox(), others * (kInboxBytes + kRows * 4));
    }
    __syncwarp();
    bring(own);
    __syncwarp();
    if constexpr (kCluster > 1) cluster_arrive(), cluster_wait();
    return;
  }
  stage_query(relay, q, q_strides, work);
  named_barrier_sync(1, kMathThreads);
  if (warpgroup == 0) {
    give_registers<kScoreRegisters>();
    const float kv_scale = rows.scale();
    Scores scores(scale * kv_scale);
    scores.begin(work);
    scores.read_query(q, q_strides, work);
    score_tiles(relay, rows, work, scores);
    scores.finish(relay.inverse(), relay.logarithms(own.part), kv_scale);
    named_barrier_sync(2, kMathThreads);
    __syncwarp();
    if constexpr (kCluster > 1) cluster_arrive(), cluster_wait();
    if (kParts > 1 && own.part < own.parts) send_logarithms(relay, own);
  } else {
    take_registers<kOutputRegisters>();
    const int column = (warpgroup - 1) * kColumns;
    Output output;
    output.add_tiles(relay, own, work, column);
    named_barrier_sync(2, kMathThreads);
    __syncwarp();
    if constexpr (kCluster > 1) cluster_arrive(), cluster_wait();
    output.finish(relay, own, work, outputs, column);
  }
}

#if SPANS
// body_spans.cuh has the entry point.
#elif GATHERS
__device__ __forceinline__ void attend_rows(u8* shared, const Element* q, const RowStrides& q_strides,
                                            const TokenRows& rows, const Work& work, const Outputs& outputs,
                                            float scale) {
  const Relay relay(shared);
  attend(relay, q, q_strides, rows, work, outputs, scale, [&](const Place&) { gather(relay, rows, work); });
}
#else
extern "C" __global__ void __launch_bounds__(kBlockThreads, 1)
    mla_decode(const Element* q, const __grid_constant__ TensorMap kv, const i32* pages, const i32* lengths, Element* o,
               float* lse, float* partial_o, float* partial_lse, i64 q_sequence, i64 q_token, i64 q_head,
               i64 o_sequence, i64 o_token, i64 o_head, i64 page_row, int capacity, int span, float scale) {
  const Relay relay(dynamic_shared());
  if (threadIdx.x == kMathThreads) tma_prefetch_descriptor(kv);
  begin(relay.shared);
  wait_for_predecessor();
  allow_dependent_launch();
  const Work work(blockIdx.x * kRows, blockIdx.y, blockIdx.z, lengths, capacity, span);
  if (work.is_idle()) return;
  attend(relay, q, {q_sequence, q_token, q_head}, {}, work,
         {o, lse, partial_o, partial_lse, {o_sequence, o_token, o_head}}, scale, [&](const Place& own) {
           if (threadIdx.x / kWarpSize != 12) return;
           RingPlace<kStages> place;
           produce(relay, own, kv, pages + work.sequence * page_row, work, l2_policy(kPackedRows <= kRows), place);
         });
}
#endif
