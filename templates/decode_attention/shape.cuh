// The specialization of one compiled unit of decode_attention, checked, and what follows from it.
//
// A worker, which is one warp or a warpgroup of four, computes on sub-tiles of kWorkerTokens tokens. In
// shared memory a box of kBoxTokens tokens of K or V lies as blocks of [token][64 elements, or 128 narrow
// ones]: rows of 128 bytes whose 16-byte units are XORed with the row number, which is what the 128-byte
// swizzle of the copy engine writes and what lets ldmatrix read without bank conflicts. Heads that do not fill their
// last block leave the rest of it empty: the copy engine writes zeros there, other copies nothing.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

// How S = Q K^T and O += P V are computed: what MATH may be.
#define MATH_MMA16 0       // mma.sync, rows on M
#define MATH_SWAP 1        // mma.sync, tokens on M and rows on N
#define MATH_WGMMA64 2     // wgmma, rows on M
#define MATH_WGMMA_SWAP 3  // wgmma, tokens on M and rows on N

#if !defined(DTYPE) || !defined(KV_DTYPE) || !defined(KV_HEAD_SCALES) || !defined(HEAD_DIM) || !defined(GROUP) || \
    !defined(PAGE) || !defined(WINDOW) || !defined(SINKS) || !defined(QUERIES) || !defined(LSE) ||                \
    !defined(BODY_TMA) || !defined(PERSISTENT) || !defined(MATH) || !defined(TILE) || !defined(STAGES) ||         \
    !defined(WARPS) || !defined(PRODUCERS) || !defined(ROW_TILES) || !defined(QUERY_IN_REGISTERS) ||              \
    !defined(SHARED_BYTES)
#error decode_attention is compiled through a plan, which defines every macro tested here
#endif

using Element = DTYPE;       // of queries and outputs
using KvElement = KV_DTYPE;  // of keys and values: Element, or E4m3

constexpr bool kNarrow = sizeof(KvElement) == 1;
// The type that the matrix instructions work on: e4m3 is widened to fp16 on its way from shared memory.
using Math = Either<kNarrow, Fp16, KvElement>;
constexpr bool kHeadScales = KV_HEAD_SCALES;  // narrow: a scale for every KV head, not for the whole tensor

constexpr int kHeadDim = HEAD_DIM;                   // 64, 80, 96, 112, 128, 192 or 256
constexpr int kGroup = GROUP;                        // query heads that share a KV head
constexpr int kPage = PAGE;                          // tokens a page; 0 for contiguous KV
constexpr int kPageTokens = kPage == 0 ? 1 : kPage;  // to divide by
constexpr int kWindow = WINDOW;                      // tokens a query sees; 0 for all of them
constexpr bool kSinks = SINKS;                       // a logit of every head joins the denominator
constexpr int kQueries = QUERIES;                    // new tokens of a sequence, causal among themselves
constexpr bool kWantsLse = LSE;                      // the logarithm of the denominator is an output
constexpr bool kPersistent = PERSISTENT;             // blocks take equal spans of all tiles, not one split
constexpr int kTile = TILE;                          // tokens a stage, over all consumer warps
constexpr int kStages = STAGES;                      // stages in flight
constexpr int kWarps = WARPS;                        // warps that compute
constexpr int kProducers = PRODUCERS;                // warps that only issue copies (tma)
constexpr int kRowTiles = ROW_TILES;                 // blocks of 16 rows a CTA has room for
constexpr bool kQueryInRegisters = QUERY_IN_REGISTERS;
// The bits of a launch's flags.
constexpr int kEvictFirst = 1;  // L2 keeps KV no longer than it must
constexpr int kKvSettled = 2;   // see settled_now()
// The running maximum may lag by this many powers of two, so that outputs are seldom rescaled: P stays below
// 256, which both element types hold without losing relative precision.
constexpr float kLag = 8.0f;

constexpr int kThreads = (kWarps + kProducers) * kWarpSize;
constexpr bool kWgmma = MATH == MATH_WGMMA64 || MATH == MATH_WGMMA_SWAP;
constexpr int kWorkerWarps = kWgmma ? 4 : 1;
constexpr int kWorkerThreads = kWorkerWarps * kWarpSize;
constexpr int kWorkers = kWarps / kWorkerWarps;
constexpr int kWorkerTokens = kTile / kWorkers;
constexpr int kPackedRows = kQueries * kGroup;              // rows that share KV: query by query, its heads together
constexpr int kRows = min_of(kPackedRows, 16 * kRowTiles);  // of them in a CTA
constexpr int kHeadBlocks = ceil_div(kPackedRows, kRows);   // CTAs over the packed rows
constexpr bool kUpperRows = kRows > 8;                      // rows 8..15 of an mma tile are in use
constexpr int kChunkElements = 128 / sizeof(KvElement);
constexpr int kUnitElements = 16 / sizeof(KvElement);
constexpr int kUnitsPerRow = kHeadDim / kUnitElements;  // 16-byte units of a row of K or V
constexpr int kChunks = ceil_div(kHeadDim, kChunkElements);
constexpr bool kWholeChunks = kHeadDim % kChunkElements == 0;
constexpr int kRowBytes = kChunks * 128;
constexpr int kBoxTokens = BODY_TMA ? (kPage == 0 ? kTile : min_of(kTile, kPage)) : kWorkerTokens;
constexpr int kChunkBytes = kBoxTokens * 128;
constexpr int kBoxBytes = kBoxTokens * kRowBytes;

static_assert(kHeadDim % 16 == 0 && kHeadDim >= 64 && kHeadDim <= 256, "head_dim");
static_assert(kWarps % kWorkerWarps == 0 && kTile % kWorkers == 0 && kWorkerTokens % 16 == 0,
              "a worker's sub-tile is a multiple of 16 tokens");
static_assert(!kWgmma || (BODY_TMA && !kNarrow), "wgmma reads 16-bit tiles that the copy engine brought");
static_assert(kPage % 16 == 0 || (kPage == 1 && !BODY_TMA), "a page is one token or a multiple of 16");
static_assert(!kNarrow || !BODY_TMA || kHeadDim > 64, "64 narrow elements leave half of a 128-byte row empty");
static_assert(kWindow >= 0 && kQueries >= 1 && kQueries <= 8, "window, queries");
static_assert(kPage == 0 || kTile % kPage == 0 || kPage % kTile == 0, "tiles and pages nest");

static_assert(!kPersistent || (BODY_TMA && kHeadBlocks == 1),
              "producers run on into the next item, and one block has all rows that share KV");

// Shared memory of a block: the KV ring, then the merge of the workers, then the queries, then what the warps
// of a worker tell each other, then barriers. The merge reuses the ring where nothing follows it; a
// persistent block's ring never empties.
constexpr int kRingBytes = 2 * kStages * kTile * kRowBytes;
constexpr int kMergeStride = kHeadDim + 8;  // floats; the padding keeps a quad's stores off each other's banks
constexpr int kMergeBytes = kWorkers * kRows * (kMergeStride + 2) * 4;
constexpr int kMergeOffset = kPersistent ? kRingBytes : 0;
constexpr int kQueryOffset = ceil_div(max_of(kRingBytes, kMergeOffset + kMergeBytes), 1024) * 1024;
constexpr int kQueryChunkBytes = 16 * kRowTiles * 128;
constexpr int kQueryBytes = kQueryChunkBytes * ceil_div(kHeadDim, 64);
constexpr int kColumns = kRows <= 8 ? 8 : 16 * kRowTiles;  // wgmma_swap: rows on N
constexpr int kSegments = kPersistent ? 3 : 1;             // whose queries are in shared memory or on their way
constexpr int kScratchOffset = kQueryOffset + kSegments * kQueryBytes;
constexpr int kScratchBytes = MATH == MATH_WGMMA_SWAP ? kWorkers * (4 * kWorkerTokens + 16) * kColumns : 0;
constexpr int kBarrierOffset = kScratchOffset + kScratchBytes;
constexpr int kBarrierBytes = BODY_TMA ? 4 * kStages * 8 : 0;
constexpr int kFlagOffset = kBarrierOffset + kBarrierBytes;
constexpr int kSegmentsOffset = kFlagOffset + 16;  // persistent: what the producer tells of segments
constexpr int kSegmentsBytes = kPersistent ? 256 : 0;
static_assert(kSegmentsOffset + kSegmentsBytes == SHARED_BYTES, "the plan lays out shared memory as above");

// The pairs of steps of 16 dimensions that one ldmatrix brings of narrow rows; the last may have one step.
constexpr int kPairs = ceil_div(kHeadDim, 32);
__device__ __forceinline__ constexpr bool is_pair(int pair) { return kHeadDim % 32 == 0 || pair < kPairs - 1; }

// The offset of token `token` in a tile, before the swizzle.
__device__ __forceinline__ constexpr int token_offset(int token) {
  return token / kBoxTokens * kBoxBytes + token % kBoxTokens * 128;
}
