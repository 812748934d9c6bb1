// Rows of tokens by cp.async: of pages that may have one token, of chosen tokens, and of a latent in e4m3, which is
// widened on its way into a tile.
#pragma once

#include "templates/common/cp_async.cuh"
#include "templates/mla_decode/shape.cuh"

// The pool of tokens, and which a sequence has. Strides are in elements.
struct TokenRows {
  const u8* kv;         // Element, or e4m3
  const float* scales;  // kGroups: 4 a token. Otherwise of kNarrow: one
  const Element* rope;  // kGroups
  const i32* table;     // of the sequence: its pages; or its tokens, each by page * kPage + place, negative: none
  i64 kv_page, kv_token, scales_page, scales_token, rope_page, rope_token;

  // The one scale of keys and values; 1 without.
  __device__ __forceinline__ float scale() const { return kNarrow && !kGroups ? scales[0] : 1.0f; }

  // The place of a token in the pool, as a table of chosen tokens has it.
  __device__ __forceinline__ int place(int token, int length) const {
    if (token >= length) return -1;
    return kChosen ? table[token] : table[token / kPage] * kPage + token % kPage;
  }
};

// A bit for each token of a tile that there is, in every lane of a warp.
__device__ __forceinline__ u64 present_tokens(const TokenRows& rows, const Work& work, int tile) {
  u64 bits = 0;
#pragma unroll
  for (int i = 0; i < kTile / kWarpSize; ++i) {
    const int token = (work.first_tile + tile) * kTile + i * kWarpSize + threadIdx.x % kWarpSize;
    bits |= static_cast<u64>(__ballot_sync(kWholeWarp, rows.place(token, work.length) >= 0)) << (i * kWarpSize);
  }
  return bits;
}

// Copies tiles by kThreads threads, numbered from 0: four of them take a row, every fourth unit of 16 bytes each. A
// thread widens what it asked for itself.
template <int kThreads>
class TileCopies {
 public:
  // Units of a thread, of one row.
  static constexpr int kLatentUnits = (kNarrow ? kLatent : kLatent * 2) / 64;
  static constexpr int kRopeUnits = (kNarrow && !kGroups ? kRope : kRope * 2) / 64;
  static constexpr int kUnits = kLatentUnits + kRopeUnits + (kGroups ? 1 : 0);  // the last: the row's scales
  static constexpr int kPasses = kTile * 4 / kThreads;                          // rows of a thread
  static_assert(kPasses * kThreads == kTile * 4, "each thread has as many rows");
  // A tile under way takes so many in front of the ring, if kNarrow.
  static constexpr int kRawBytes = kTile * 64 * kUnits;

  // A thread's rows, by their places in the pool.
  struct Places {
    int of[kPasses];
  };

  __device__ __forceinline__ TileCopies(u8* shared, const TokenRows& rows, int thread)
      : shared_(shared), base_(shared_address(shared)), rows_(rows), thread_(thread) {}

  __device__ __forceinline__ Places places(const Work& work, int tile) const {
    Places found;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      found.of[pass] = tile < work.tiles ? rows_.place((work.first_tile + tile) * kTile + row(pass), work.length) : -1;
    }
    return found;
  }

  // Asks for a tile at offset `to`: of the raw tile if kNarrow, else of the tile itself. Zeros stand for tokens that
  // there are none of: P is 0 there, and 0 times NaN is NaN.
  __device__ __forceinline__ void ask(int to, const Places& places) const {
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const bool valid = places.of[pass] >= 0;
      const int page = valid ? places.of[pass] / kPage : 0, token = valid ? places.of[pass] % kPage : 0;
      const u8* const kv =
          rows_.kv + (page * rows_.kv_page + token * rows_.kv_token) * (kNarrow ? 1 : 2) + lane_of_row() * 16;
      const u8* rope = kv + kLatentUnits * 64;
      if constexpr (kGroups) {
        rope = reinterpret_cast<const u8*>(rows_.rope + page * rows_.rope_page + token * rows_.rope_token) +
               lane_of_row() * 16;
        cp_async_16(base_ + to + raw(pass, kUnits - 1),
                    rows_.scales + page * rows_.scales_page + token * rows_.scales_token, valid);
      }
#pragma unroll
      for (int i = 0; i < kLatentUnits + kRopeUnits; ++i) {
        const u8* const from = i < kLatentUnits ? kv + i * 64 : rope + (i - kLatentUnits) * 64;
        cp_async_16(base_ + to + (kNarrow ? raw(pass, i) : unit_offset(kTile, row(pass), i * 4 + lane_of_row())), from,
                    valid);
      }
    }
  }

  // Puts what this thread's copies brought to offset `from` into the tile at offset `to`.
  __device__ __forceinline__ void widen(int from, int to) const {
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      float4 scales = make_float4(1, 1, 1, 1);
      if constexpr (kGroups) scales = *reinterpret_cast<const float4*>(shared_ + from + raw(pass, kUnits - 1));
      const auto unit_at = [&](int unit) {
        return reinterpret_cast<uint4*>(shared_ + to + unit_offset(kTile, row(pass), unit));
      };
      constexpr int kAtOnce = 5;  // loads, which the compiler does not move across stores
#pragma unroll
      for (int begin = 0; begin < kLatentUnits + kRopeUnits; begin += kAtOnce) {
        uint4 words[kAtOnce];
#pragma unroll
        for (int i = begin; i < min_of(begin + kAtOnce, kLatentUnits + kRopeUnits); ++i) {
          words[i - begin] = *reinterpret_cast<const uint4*>(shared_ + from + raw(pass, i));
        }
#pragma unroll
        for (int i = begin; i < min_of(begin + kAtOnce, kLatentUnits + kRopeUnits); ++i) {
          const uint4& own = words[i - begin];
          if (kGroups && i >= kLatentUnits) {
            *unit_at(kLatent / 8 + (i - kLatentUnits) * 4 + lane_of_row()) = own;
            continue;
          }
          const float scale = i < 2 ? scales.x : i < 4 ? scales.y : i < 6 ? scales.z : scales.w;
          const uint2 first = widened(own.x, scale), second = widened(own.y, scale), third = widened(own.z, scale),
                      fourth = widened(own.w, scale);
          *unit_at(8 * i + 2 * lane_of_row()) = make_uint4(first.x, first.y, second.x, second.y);
          *unit_at(8 * i + 2 * lane_of_row() + 1) = make_uint4(third.x, third.y, fourth.x, fourth.y);
        }
      }
    }
  }

 private:
  __device__ __forceinline__ int lane_of_row() const { return thread_ % 4; }
  __device__ __forceinline__ int row(int pass) const { return thread_ / 4 + pass * (kThreads / 4); }
  __device__ __forceinline__ int raw(int pass, int unit) const {
    return ((pass * kUnits + unit) * kThreads + thread_) * 16;
  }

  // Four values in order.
  static __device__ __forceinline__ uint2 widened(u32 word, float scale) {
    uint2 pairs = widen_e4m3x4(word);
    if constexpr (kGroups) {
      float a, b, c, d;
      Fp16::unpack(pairs.x, a, b);
      Fp16::unpack(pairs.y, c, d);
      pairs = make_uint2(Element::pack(a * scale, b * scale), Element::pack(c * scale, d * scale));
    }
    return pairs;
  }

  u8* shared_;
  u32 base_;
  TokenRows rows_;
  int thread_;
};
