// Body `relay` (sm_90a): 64 packed rows, padding included, and four warpgroups that hand tiles on to each other.
//
//   warpgroup 0     S = Q K^T of a tile, softmax; P and the factors of O to shared memory
//   warpgroups 1, 2 O += P V, of 256 columns of the latent each
//   warpgroup 3     one warp asks the copy engine for tiles; or all its warps gather and widen their rows
//
// Barriers of a stage: `full` counts the bytes of a third of the chunks, so that S begins before the whole tile is
// there, or the threads of warpgroup 3; at `scored` the threads of warpgroup 0 arrive once a tile, when P is there and no row behind the last token
// holds NaN; at `empty` those of warpgroups 1 and 2, each for the P that it has read, and a lane of each of their warps
// in the other blocks of a pair. Warpgroup 0 is one tile ahead, so that the tensor cores are busy during softmax.
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
#include "templates/common/quad.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/ring_place.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/warp_registers.cuh"
#include "templates/common/wgmma_async.cuh"
#include "templates/mla_decode/gather.cuh"

static_assert(kRows == 64, "one wgmma has 64 rows");

constexpr int kBoxTokens = min_of(kPage, kTile);  // of one copy
constexpr int kBoxes = kTile / kBoxTokens;
constexpr int kMathThreads = 384;
constexpr int kColumns = 256;  // of the latent, a warpgroup
constexpr int kSteps = kTile / 16;
constexpr bool kGathers = GATHERS;  // rows are not the copy engine's
constexpr int kThirds = kGathers ? 1 : 3, kThirdChunks = kChunks / kThirds;
constexpr int kBarriers = kThirds + 2;  // of a stage
constexpr int kPair = PAIR, kParts = PARTS, kCluster = kPair * kParts;
constexpr int kShare = kColumns / 8 / kParts;  // pieces of 8 columns that a part puts together, of a warpgroup's

using Copies = TileCopies<128>;
constexpr int kAhead = kNarrow ? STAGES : kStages - 1;  // tiles that are asked for before the first is waited for

// Shared memory: the tiles; the latent part of the queries as [chunk][row][128 bytes], of which products read 64 rows,
// whatever lies behind those that there are; raw tiles of a narrow latent; P of each stage as the lanes hold it; factors
// of each stage, by row; what rows are divided by; logarithms of parts, by row; barriers. What other parts send takes
// the place of all in front of P.
constexpr int kQueryRows = min_of(kRows, ceil_div(kPackedRows, 16) * 16);
constexpr int kQueryChunkBytes = kQueryRows * 128;
constexpr int kQueryOffset = kStages * kTileBytes;
constexpr int kRawOffset = kQueryOffset + (kLatentChunks - 1) * kQueryChunkBytes + kRows * 128;
constexpr int kInboxBytes = kShare * 256 * 16;  // from one other part
constexpr int kScoresOffset =
    max_of(kRawOffset + (kNarrow ? STAGES * Copies::kRawBytes : 0), (kParts - 1) * kInboxBytes);
constexpr int kScoresBytes = kRows * kTile * 2;
constexpr int kFactorsOffset = kScoresOffset + kStages * kScoresBytes;
constexpr int kInverseOffset = kFactorsOffset + kStages * kRows * 4;
constexpr int kLogarithmsOffset = kInverseOffset + kRows * 4;
constexpr int kBarrierOffset = kLogarithmsOffset + kParts * kRows * 4;
static_assert(kBarrierOffset + (kStages * kBarriers + 1) * 8 <= SHARED_BYTES,
              "kernel.json lays out shared memory as above");

struct Relay {
  u8* shared;
  u32 base;

  __device__ __forceinline__ explicit Relay(u8* from) : shared(from), base(shared_address(from)) {}

  __device__ __forceinline__ u32 tile(int stage) const { return base + stage * kTileBytes; }
  __device__ __forceinline__ u32 full(int stage, int third) const {
    return base + kBarrierOffset + (stage * kBarriers + third) * 8;
  }
  __device__ __forceinline__ u32 scored(int stage) const { return full(stage, kThirds); }
  __device__ __forceinline__ u32 empty(int stage) const { return full(stage, kThirds + 1); }
  // P of 16 tokens, this lane's.
  __device__ __forceinline__ uint4* scores(int stage, int step) const {
    return reinterpret_cast<uint4*>(shared + kScoresOffset + stage * kScoresBytes) + step * 128 + threadIdx.x % 128;
  }
  __device__ __forceinline__ float* factors(int stage) const {
    return reinterpret_cast<float*>(shared + kFactorsOffset) + stage * kRows;
  }
  __device__ __forceinline__ float* inverse() const { return reinterpret_cast<float*>(shared + kInverseOffset); }
  __device__ __forceinline__ float* logarithms(int part) const {
    return reinterpret_cast<float*>(shared + kLogarithmsOffset) + part * kRows;
  }
  // Counts the bytes that other parts send.
  __device__ __forceinline__ u32 inbox() const { return full(kStages, 0); }

  __device__ __forceinline__ void initialize() const {
    for (int stage = 0; stage < kStages; ++stage) {
      for (int third = 0; third < kThirds; ++third) mbarrier_init(full(stage, third), kGathers ? 128 : 1);
      mbarrier_init(scored(stage), 128);
      mbarrier_init(empty(stage), 8 * (kWarpSize + kPair - 1));
    }
    mbarrier_init(inbox(), 1);
    mbarrier_init_fence();
  }
};

// The place of a block in its cluster, whose ranks count blocks of rows first.
struct Place {
  u32 row = 0;
  u32 part = 0;
  u32 parts = 1;  // of the cluster, that have tokens; one of them if there are none

  __device__ __forceinline__ Place() {
    if constexpr (kCluster > 1) row = cluster_rank() % kPair, part = cluster_rank() / kPair;
  }

  __device__ __forceinline__ u32 rank(u32 of_row, u32 of_part) const { return of_part * kPair + of_row; }
};

// The page of this lane's box of a tile. Nothing is looked up from the end on.
__device__ __forceinline__ i32 find_page(const i32* pages, const Work& work, int tile) {
  const int box = threadIdx.x % kWarpSize, token = (work.first_tile + tile) * kTile + box * kBoxTokens;
  return box < kBoxes && token < work.length ? pages[token / kPage] : 0;
}

__device__ __forceinline__ void produce(const Relay& relay, const Place& own, const TensorMap& kv, const i32* pages,
                                        const Work& work, u64 policy) {
  const int lane = threadIdx.x % kWarpSize;
  RingPlace<kStages> place;
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
    if constexpr (!kNarrow) ask(tile + kAhead);
    cp_async_wait<kNarrow ? kAhead - 1 : kAhead>();
    if constexpr (kNarrow) {
      mbarrier_wait(relay.empty(place.index), place.parity ^ 1);
      copies.widen(kRawOffset + tile % STAGES * Copies::kRawBytes, place.index * kTileBytes);
    }
    fence_async_proxy();
    mbarrier_arrive(relay.full(place.index, 0));
    place.advance();
    if constexpr (kNarrow) ask(tile + kAhead);  // into the place that is free now
  }
}

// The latent part of the rows, zeros for padding. Called by kMathThreads threads, which synchronize.
__device__ __forceinline__ void stage_query(const Relay& relay, const Element* q, const RowStrides& strides,
                                            const Work& work) {
  for (int i = threadIdx.x; i < kQueryRows * (kLatent / 8); i += kMathThreads) {
    const int row = i / (kLatent / 8), unit = i % (kLatent / 8);
    uint4 value = make_uint4(0, 0, 0, 0);
    if (row < work.rows) value = to_operand(reinterpret_cast<const uint4*>(q + work.offset(strides, row))[unit]);
    const int offset = unit / 8 * kQueryChunkBytes + row * 128 + ((unit % 8 ^ row % 8) << 4);
    *reinterpret_cast<uint4*>(relay.shared + kQueryOffset + offset) = value;
  }
  fence_async_proxy();
}

// The row of this lane: its lower one, or the one 8 further.
__device__ __forceinline__ int row_of(int half) {
  return static_cast<int>(threadIdx.x % 128) / kWarpSize * 16 + half * 8 + threadIdx.x % kWarpSize / 4;
}

class Scores {
 public:
  __device__ __forceinline__ Scores(const Element* q, const RowStrides& strides, const Work& work, float scale)
      : scale_log2_(logit_factor(scale)), negates_(scale < 0) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      maximum_[half] = lowest();
      sum_[half] = 0;
      end_[half] = work.end(row_of(half));
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
    if (!negates_) return;
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores_[j][i] = -scores_[j][i];
    }
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
      // Rows behind those that there are hold anything, and need no rescaling.
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

  // What the rows are divided by, and their logarithms.
  __device__ __forceinline__ void finish(const Relay& relay, const Place& own, float value_scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = sum_across<4>(sum_[half]);
      if (threadIdx.x % 4 != 0) continue;
      relay.inverse()[row_of(half)] = inverse_of(sum) * value_scale;
      relay.logarithms(own.part)[row_of(half)] = maximum_[half] + log2_fast(sum);
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

// O of 64 rows and kColumns columns from `column` on.
class Output {
 public:
  __device__ __forceinline__ Output() {
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum_[j][i] = 0;
    }
  }

  __device__ __forceinline__ void add_tiles(const Relay& relay, const Place& own, const Work& work, int column) {
    RingPlace<kStages> place;
    for (int tile = 0; tile < work.tiles; ++tile) {
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
          wgmma_columns<Operand, 128>(sum_ + 16 * part, p[step],
                                      WgmmaMatrix::moved(v, step * 2048 + part * 2 * kChunkBytes));
        }
      }
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_hold<kColumns / 8>(sum_);
      mbarrier_arrive(relay.empty(place.index));
      if constexpr (kPair > 1) {
        __syncwarp();
        const u32 lane = threadIdx.x % kWarpSize;
        if (lane < kPair && lane != own.row) mbarrier_arrive_block(relay.empty(place.index), own.rank(lane, own.part));
      }
      place.advance();
    }
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
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of(half);
      if (row >= work.rows) continue;
      if (work.groups() > 1) {
        outputs.partial_lse[work.global_row(row) * (gridDim.y / kParts) + work.split / kParts] = logarithms[half];
      } else if (kWantsLse) {
        outputs.lse[work.global_row(row)] = logarithms[half] * kLn2;
      }
    }
  }

 private:
  // Where the other parts' pieces of columns lie, in the order of the parts.
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
        const i64 at = work.global_row(row) * (gridDim.y / kParts) + work.split / kParts;
        float* const to = outputs.partial_o + at * kLatent + first + 2 * quad;
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

constexpr int kBlockThreads = 512;
// Registers of a thread of warpgroup 0, of 1 and 2, and of 3: 512 in all.
constexpr int kScoreRegisters = kGathers ? 96 : 112, kOutputRegisters = kGathers ? 176 : 184,
              kCopyRegisters = kGathers ? 64 : 24;

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
    Scores scores(q, q_strides, work, scale * kv_scale);
    score_tiles(relay, rows, work, scores);
    scores.finish(relay, own, kv_scale);
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

#if GATHERS
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
           produce(relay, own, kv, pages + work.sequence * page_row, work, l2_policy(kPackedRows <= kRows));
         });
}
#endif
