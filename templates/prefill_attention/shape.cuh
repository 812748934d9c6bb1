// The specialization of one compiled unit of prefill_attention, checked, and what follows from it.
//
// A block has kRows rows of one head, 64 for each warpgroup that computes; if PACKED, the kGroup query heads of a
// KV head take turns in them, token by token. Q, K and V lie in shared memory as blocks of [row][64 elements]: rows of
// 128 bytes whose 16-byte units are XORed with the row number, as the 128-byte swizzle of the copy engine writes them.
// In e4m3 a row has 128 elements; with a head_dim of 64 it has 64 bytes, and the 64-byte swizzle. Heads that do not
// fill their last block leave the rest of it empty: the copy engine writes zeros there, other copies nothing.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

// The values of SCHEDULE: which tile of the grid a block takes next.
#define SCHEDULE_GRID 0     // its own, then it ends
#define SCHEDULE_STATIC 1   // every gridDim.x-th, in alternating directions
#define SCHEDULE_DYNAMIC 2  // the first that no block has taken

#if !defined(DTYPE) || !defined(HEAD_DIM) || !defined(GROUP) || !defined(PAGE) || !defined(CAUSAL) ||        \
    !defined(WINDOW) || !defined(SINKS) || !defined(LSE) || !defined(BODY_WGMMA) || !defined(WARPGROUPS) ||  \
    !defined(TILE) || !defined(STAGES) || !defined(QUERY_STAGES) || !defined(PACKED) || !defined(OVERLAP) || \
    !defined(PING_PONG) || !defined(LAG) || !defined(POLY) || !defined(TRIM) || !defined(SCHEDULE) ||        \
    !defined(SHARED_BYTES)
#error prefill_attention is compiled through a plan, which defines every macro tested here
#endif

using Element = DTYPE;  // of queries and outputs

// KV_DTYPE and KV_HEAD_SCALES are defined for keys and values in e4m3 only, and only then do kernels take scales: the
// others are compiled, and called, as before there were any. Keys and values are widened to fp16 on their way into
// shared memory, and bf16 queries are converted there. With Q_DTYPE queries are e4m3, too. Then wgmma multiplies e4m3:
// values are transposed on their way, as its operands are K-major, and probabilities are rounded to e4m3.
#if defined(Q_DTYPE)
using QueryElement = Q_DTYPE;
#define SCALE_PARAMETERS , const float *q_scale, const float *k_scale, const float *v_scale
#define SCALE_ARGUMENTS q_scale, k_scale, v_scale
#elif defined(KV_DTYPE)
using QueryElement = Element;
#define SCALE_PARAMETERS , const float *k_scale, const float *v_scale
#define SCALE_ARGUMENTS nullptr, k_scale, v_scale
#else
using QueryElement = Element;
#define SCALE_PARAMETERS
#define SCALE_ARGUMENTS nullptr, nullptr, nullptr
#endif
#ifdef KV_DTYPE
using KvElement = KV_DTYPE;
constexpr bool kHeadScales = KV_HEAD_SCALES;  // a scale for every KV head, not for the whole tensor
static_assert(sizeof(KvElement) == 1, "e4m3");
#else
using KvElement = Element;
constexpr bool kHeadScales = false;
#endif
constexpr bool kNarrow = sizeof(KvElement) == 1;
constexpr bool kNarrowQueries = sizeof(QueryElement) == 1;
constexpr bool kMultipliesBytes = kNarrowQueries && BODY_WGMMA;
constexpr bool kWidens = kNarrow && !kMultipliesBytes;
static_assert(kNarrow || !kNarrowQueries, "queries in e4m3 go with keys and values in e4m3");

// The type that the matrix instructions work on.
using Math = Either<kMultipliesBytes, E4m3, Either<kNarrow, Fp16, Element>>;

template <typename Type>
struct IsBf16 {
  static constexpr bool kValue = false;
};
template <>
struct IsBf16<Bf16> {
  static constexpr bool kValue = true;
};
constexpr bool kConvertsQueries = kNarrow && !kNarrowQueries && IsBf16<Element>::kValue;

constexpr int kHeadDim = HEAD_DIM;          // 64, 80, 96, 112, 128, 192 or 256
constexpr int kGroup = GROUP;               // query heads that share a KV head
constexpr int kPage = PAGE;                 // tokens a page; 0 for contiguous KV
constexpr bool kCausal = CAUSAL;            // the last row sees the last token, the one before it one less
constexpr int kWindow = WINDOW;             // tokens a row sees, its own the last; 0 for all
constexpr bool kSinks = SINKS;              // a logit of every head joins the denominator
constexpr bool kWantsLse = LSE;             // the logarithm of the denominator is an output
constexpr int kWarpgroups = WARPGROUPS;     // that compute; with wgmma one more loads
constexpr int kTile = TILE;                 // tokens a stage
constexpr int kQueryStages = QUERY_STAGES;  // blocks of rows whose queries are there or on their way
constexpr int kStages = STAGES;             // stages of K in flight, and as many of V
constexpr bool kPacked = PACKED;
constexpr bool kOverlap = OVERLAP;     // softmax beside the next product of the same warpgroup
constexpr bool kPingPong = PING_PONG;  // warpgroups issue their products by turns
// Powers of two by which the running maximum may lag, and by which probabilities are larger than they are: as e4m3 they
// then use its range up to 256, of 448.
constexpr float kLag = kMultipliesBytes && LAG > 2 ? 2 : LAG;
constexpr float kShift = kMultipliesBytes ? 8 - kLag : 0;
constexpr int kPolynomials = POLY;  // of every 8 exponentials, so many by polynomial

constexpr int kFewTokens = TRIM ? ceil_div(kTile, 32) * 16 : kTile;  // of a last tile of which no more is seen

constexpr int kRows = 64 * kWarpgroups;
constexpr int kHeadsInRows = kPacked ? kGroup : 1;
constexpr int kTokens = kRows / kHeadsInRows;  // query tokens of a block
constexpr int kThreads = 128 * (kWarpgroups + (BODY_WGMMA ? 1 : 0));
constexpr int kElementBytes = kMultipliesBytes ? 1 : 2;              // of queries, keys and values in shared memory
constexpr int kRowBytes = kHeadDim * kElementBytes > 64 ? 128 : 64;  // of a chunk of a row
constexpr int kChunkElements = kRowBytes / kElementBytes;
constexpr int kChunks = ceil_div(kHeadDim, kChunkElements);
constexpr bool kWholeChunks = kHeadDim % kChunkElements == 0;
constexpr int kQueryChunkBytes = kRows * kRowBytes;
constexpr int kTileChunkBytes = kTile * kRowBytes;
constexpr int kQueryBytes = kChunks * kQueryChunkBytes;
constexpr int kTileBytes = kChunks * kTileChunkBytes;
// A tile of values: as one of keys, or transposed to rows of 128 tokens.
constexpr int kValueChunkBytes = kMultipliesBytes ? kHeadDim * 128 : kTileChunkBytes;
constexpr int kValueBytes = kMultipliesBytes ? ceil_div(kTile, 128) * kValueChunkBytes : kTileBytes;
constexpr int kBoxTokens = kPage == 0 ? kTile : min_of(kTile, kPage);

static_assert(kHeadDim % 16 == 0 && kHeadDim >= 64 && kHeadDim <= 256, "head_dim");
static_assert(kWarpgroups >= 1 && kWarpgroups <= 3, "warpgroups");
static_assert(kTile % (kMultipliesBytes ? 32 : 16) == 0 && kTile >= (BODY_WGMMA ? 64 : 32) && kTile <= 192, "tile");
static_assert(!kPacked || 64 % kGroup == 0, "packed heads share a warpgroup's rows evenly");
static_assert(!BODY_WGMMA || kPage == 0 || (kPage % 16 == 0 && (kTile % kPage == 0 || kPage % kTile == 0)),
              "tiles and pages nest");
static_assert(!kPingPong || kWarpgroups > 1, "turns need two");
static_assert(!TRIM || (BODY_WGMMA && kTile >= 128), "half a tile is a wgmma");

// e4m3 in the wgmma body: tiles land as they are, rows side by side, and are widened from there. If bytes are
// multiplied, tiles of values alone, and are transposed from there.
constexpr int kRawStages = kNarrow && BODY_WGMMA ? 2 : 0;
constexpr int kRawBytes = kMultipliesBytes ? kTileBytes : kTile * kHeadDim;

// Shared memory: the queries, the rings of K and V, e4m3 that landed, barriers, and what the loading warp says of the
// next work.
constexpr int kKeysOffset = kQueryStages * kQueryBytes;
constexpr int kValuesOffset = kKeysOffset + kStages * kTileBytes;
constexpr int kRawOffset = kValuesOffset + kStages * kValueBytes;
constexpr int kBarriersOffset = kRawOffset + kRawStages * kRawBytes;
constexpr int kBarrierBytes = kRawStages > 0 ? 256 : 192;
constexpr int kWorkOffset = kBarriersOffset + kBarrierBytes;
static_assert(kStages <= 4 && kQueryStages <= 2 && kWorkOffset + 64 == SHARED_BYTES,
              "the plan lays out shared memory as above");
