// How the mma body's threads bring queries, keys and values to shared memory: 16 bytes each by cp.async, in the order
// that the 128-byte swizzle gives. What no row of the block sees is written as zeros and not read, so that 0 * V is 0.
// Keys and values in e4m3, and with them queries in bf16, pass through registers, where they become fp16.
#pragma once

#include "templates/common/cp_async.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/unrolled.cuh"
#include "templates/prefill_attention/work.cuh"

constexpr int kUnits = kHeadDim / 8;  // of 16 bytes in a row
// Threads that copy a row, each the same unit of every row; where its units do not divide a warp, one of each chunk.
constexpr int kRowThreads = kWarpSize % kUnits == 0 ? kUnits : 8;
constexpr int kRowParts = ceil_div(kUnits, kRowThreads);
constexpr int kRowsOfCopy = kThreads / kRowThreads;  // that all threads copy at once
constexpr int kPageTokens = kPage == 0 ? 1 : kPage;

struct QuerySource {
  const QueryElement* q;
  i64 token_stride;
  i64 head_stride;
};

struct KvSource {
  const KvElement* base;
  KvStrides strides;
};

// A thread's units of a tile in e4m3 on their way.
constexpr int kCopies = ceil_div(kTile, kRowsOfCopy);
struct HeldTile {
  uint2 units[kCopies][kRowParts];
};

class Copier {
 public:
  // `pages` is the sequence's row of the page table.
  __device__ __forceinline__ Copier(u8* memory, const Work& work, const i32* pages)
      : memory_(memory),
        shared_(in_vector_register(shared_address(memory))),
        work_(work),
        pages_(pages),
        begin_(work.begin(work.first_token)),
        end_(work.end(work.last_token())),
        policy_(l2_policy(false)),
        unit_(threadIdx.x % kRowThreads),
        row_(threadIdx.x / kRowThreads) {}

  __device__ __forceinline__ void queries(const QuerySource& source) const {
#pragma unroll
    for (int first = 0; first < kRows; first += kRowsOfCopy) {
      const int row = first + row_, token = work_.first_token + row / kHeadsInRows;
      if (kRows % kRowsOfCopy != 0 && row >= kRows) break;
      const bool valid = token < work_.q_length;
      const i64 place = valid ? work_.q_first + token : 0;
      each_part([&](int part) {
        if constexpr (kNarrowQueries) {
          const auto* const from = reinterpret_cast<const uint2*>(query_unit(source, place, row, part));
          store(place_of(0, kQueryChunkBytes, row, part), widen_e4m3x8(valid ? *from : make_uint2(0, 0)));
        } else if constexpr (kConvertsQueries) {
          const uint4 zeros = make_uint4(0, 0, 0, 0);
          const uint4* const from = reinterpret_cast<const uint4*>(query_unit(source, place, row, part));
          store(place_of(0, kQueryChunkBytes, row, part), valid ? convert_unit<Element, Fp16>(*from) : zeros);
        } else {
          cp_async_16(slot(0, kQueryChunkBytes, row, part), query_unit(source, place, row, part), valid, policy_);
        }
      });
    }
  }

  // Tile `tile` of keys or values to shared memory's `offset`.
  __device__ __forceinline__ void tile(const KvSource& source, int tile, u32 offset) const {
    const KvElement* const head = source.base + work_.kv_head * source.strides.head + unit_ * 8;
#pragma unroll
    for (int first = 0; first < kTile; first += kRowsOfCopy) {
      const int row = first + row_, token = tile * kTile + row;
      if (kTile % kRowsOfCopy != 0 && row >= kTile) break;
      const bool valid = token >= begin_ && token < end_;
      i64 block = 0, within = valid ? work_.kv_first + token : 0;
      if constexpr (kPage > 0) {
        block = valid ? pages_[token / kPageTokens] : 0;
        within = token % kPageTokens;
      }
      const KvElement* const from = head + block * source.strides.block + within * source.strides.token;
      each_part([&](int part) {
        cp_async_16(slot(offset, kTileChunkBytes, row, part), from + part * kRowThreads * 8, valid, policy_);
      });
    }
  }

  // Fetches a tile of e4m3, which stays in registers until `land`.
  __device__ __forceinline__ void fetch(const KvSource& source, int tile, HeldTile& held) const {
    const KvElement* const head = source.base + work_.kv_head * source.strides.head + unit_ * 8;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int row = i * kRowsOfCopy + row_, token = tile * kTile + row;
      const bool valid = row < kTile && token >= begin_ && token < end_;
      each_part([&](int part) { held.units[i][part] = make_uint2(0, 0); });
      if (!valid) continue;
      const i64 block = kPage > 0 ? pages_[token / kPageTokens] : 0;
      const i64 within = kPage > 0 ? token % kPageTokens : work_.kv_first + token;
      const KvElement* const from = head + block * source.strides.block + within * source.strides.token;
      each_part(
          [&](int part) { held.units[i][part] = *reinterpret_cast<const uint2*>(from + part * kRowThreads * 8); });
    }
  }

  __device__ __forceinline__ void land(const HeldTile& held, u32 offset) const {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int row = i * kRowsOfCopy + row_;
      if (row >= kTile) continue;
      each_part(
          [&](int part) { store(place_of(offset, kTileChunkBytes, row, part), widen_e4m3x8(held.units[i][part])); });
    }
  }

 private:
  // For every part of a row of which this thread has a unit.
  template <typename Take>
  __device__ __forceinline__ void each_part(const Take& take) const {
    unrolled<kRowParts>([&](int part) {
      if (kUnits % kRowThreads == 0 || part * kRowThreads + unit_ < kUnits) take(part);
    });
  }

  __device__ __forceinline__ const QueryElement* query_unit(const QuerySource& source, i64 place, int row,
                                                            int part) const {
    return source.q + place * source.token_stride + (work_.head + row % kHeadsInRows) * source.head_stride +
           (part * kRowThreads + unit_) * 8;
  }

  __device__ __forceinline__ u32 slot(u32 offset, int chunk_bytes, int row, int part) const {
    return shared_ + place_of(offset, chunk_bytes, row, part);
  }
  __device__ __forceinline__ u32 place_of(u32 offset, int chunk_bytes, int row, int part) const {
    return offset + (part + unit_ / 8) * chunk_bytes + row * 128 + ((unit_ % 8 ^ row % 8) << 4);
  }
  __device__ __forceinline__ void store(u32 place, uint4 unit) const {
    *reinterpret_cast<uint4*>(memory_ + place) = unit;
  }

  u8* memory_;
  u32 shared_;
  const Work& work_;
  const i32* pages_;
  int begin_, end_;  // the tokens that some row of the block sees
  u64 policy_;
  int unit_, row_;  // this thread's
};
