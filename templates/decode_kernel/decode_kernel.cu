// y = a*x + b, its sums, or several versions of it: all the time goes into moving x and what is written.
//
// A block takes tiles of x in turn, a warp takes whole chunks of a tile, and a lane takes vectors of a chunk.
// The three loaders differ in how a tile gets to its warps:
//   vector    from global memory straight into registers
//   cp_async  every warp copies its own chunks into a ring of stages in shared memory, some tiles ahead
//   bulk      one thread has the copy engine fill whole stages; mbarriers say when one is full and when it is
//   empty
//
// Macros: those of elements.cuh; LOADER_VECTOR, LOADER_CP_ASYNC or LOADER_BULK (one of them 1), VECTOR_BYTES
// (8, 16), TILE_BYTES, STAGES, WARPS (that compute), PRODUCERS (0 or 1 warp that only fills the ring),
// EVICT_FIRST, PASSES (times that all of x is read, one after the other; each writes the same).
#include "templates/common/bulk_copy.cuh"
#include "templates/common/cp_async.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/vectors.cuh"
#include "templates/decode_kernel/elements.cuh"

constexpr int kChunkBytes = kChunk * sizeof(Element);
constexpr int kTileChunks = TILE_BYTES / kChunkBytes;
constexpr int kVectors = kChunkBytes / VECTOR_BYTES / kWarpSize;  // of one lane, in a chunk
constexpr int kWords = VECTOR_BYTES / 4;
constexpr int kWarps = WARPS;
static_assert(TILE_BYTES % kChunkBytes == 0 && kTileChunks >= kWarps, "every warp has a chunk of each tile");

using Vector = PackedBytes<VECTOR_BYTES>::Type;

struct Arguments {
  const Element* x;
  void* out;  // Element[] or, of write=none, float[]
  float a, b;
  i64 elements;

  __device__ i64 full_tiles() const { return elements / (kTileChunks * kChunk); }
  // Tiles of all passes, and which tile of x the n-th of them is.
  __device__ i64 passed_tiles() const { return PASSES * full_tiles(); }
  __device__ i64 place(i64 tile) const {
    return PASSES == 1 ? tile : static_cast<u32>(tile) % static_cast<u32>(full_tiles());
  }
};

struct Lane {
  int warp = threadIdx.x / kWarpSize;
  int lane = threadIdx.x % kWarpSize;
};

// --- one chunk --------------------------------------------------------------------------------------------

// a*x + b of the elements in one 32-bit word; adds them to `sum`.
template <typename T>
__device__ __forceinline__ u32 map_word(u32 word, const Arguments& arguments, float& sum) {
  if constexpr (sizeof(T) == 4) {
    const float y = fmaf(arguments.a, __uint_as_float(word), arguments.b);
    sum += y;
    return __float_as_uint(y);
  } else {
    const float low = fmaf(arguments.a, T::to_float(T{u16(word)}), arguments.b);
    const float high = fmaf(arguments.a, T::to_float(T{u16(word >> 16)}), arguments.b);
    sum += low + high;
    return T::pack(low, high);
  }
}

__device__ __forceinline__ void store(Vector* destination, Vector value) {
  if (EVICT_FIRST) {
    __stcs(destination, value);
  } else {
    *destination = value;
  }
}

constexpr int kVectorElements = VECTOR_BYTES / sizeof(Element);
constexpr int kRowElements = kWarpSize * kVectorElements;  // of all lanes, in one vector each

// An element of a vector, as float.
template <typename T>
__device__ __forceinline__ float element_of(const u32 (&words)[kWords], int position) {
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float(words[position]);
  } else {
    return T::to_float(T{u16(words[position / 2] >> (position % 2 * 16))});
  }
}

// `values` in the order of memory, rounded to the element type.
template <typename T>
__device__ __forceinline__ Vector vector_of(const float (&values)[kVectorElements]) {
  VectorOf<VECTOR_BYTES> vector;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    if constexpr (sizeof(T) == 4) {
      vector.words[w] = __float_as_uint(values[w]);
    } else {
      vector.words[w] = T::pack(values[2 * w], values[2 * w + 1]);
    }
  }
  return vector.packed;
}

// One warp, one whole chunk: write=eighth. A row of vectors is half, once or twice as long as a row of sums.
__device__ __forceinline__ void sum_eighths(const Arguments& arguments, i64 chunk, int lane,
                                            const Vector (&values)[kVectors]) {
  constexpr int kRows = kRowElements < kEighth ? kEighth / kRowElements : 1;
  static_assert(2 * kRowElements == kEighth || kRowElements == kEighth || kRowElements == 2 * kEighth);
  float sums[kRows][kVectorElements] = {};
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const VectorOf<VECTOR_BYTES> value{values[i]};
#pragma unroll
    for (int e = 0; e < kVectorElements; ++e)
      sums[i % kRows][e] += fmaf(arguments.a, element_of<Element>(value.words, e), arguments.b);
  }
  if constexpr (kRowElements > kEighth) {
#pragma unroll
    for (int e = 0; e < kVectorElements; ++e) sums[0][e] += __shfl_xor_sync(kWholeWarp, sums[0][e], kWarpSize / 2);
  }
  Vector* out = reinterpret_cast<Vector*>(static_cast<Element*>(arguments.out) + chunk * kEighth);
  if (lane * kVectorElements >= kEighth) return;
#pragma unroll
  for (int row = 0; row < kRows; ++row) store(out + row * kWarpSize + lane, vector_of<Element>(sums[row]));
}

// One warp, one whole chunk: write=eightfold.
__device__ __forceinline__ void write_versions(const Arguments& arguments, i64 chunk, int lane,
                                               const Vector (&values)[kVectors]) {
  Vector* out = reinterpret_cast<Vector*>(static_cast<Element*>(arguments.out) + kVersions * chunk * kChunk);
#pragma unroll
  for (int version = 0; version < kVersions; ++version) {
    const float b = (version + 1) * arguments.b;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const VectorOf<VECTOR_BYTES> value{values[i]};
      float results[kVectorElements];
#pragma unroll
      for (int e = 0; e < kVectorElements; ++e) results[e] = fmaf(arguments.a, element_of<Element>(value.words, e), b);
      store(out + (version * kVectors + i) * kWarpSize + lane, vector_of<Element>(results));
    }
  }
}

// One warp, one whole chunk. All of it is in registers before the first result leaves.
__device__ __forceinline__ void map_chunk(const Arguments& arguments, i64 chunk, int lane,
                                          const Vector (&values)[kVectors]) {
  if constexpr (kWrite == Write::eighth) return sum_eighths(arguments, chunk, lane, values);
  if constexpr (kWrite == Write::eightfold) return write_versions(arguments, chunk, lane, values);
  constexpr bool kWriteAll = kWrite == Write::all;
  Vector* y = reinterpret_cast<Vector*>(static_cast<Element*>(arguments.out) + chunk * kChunk);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    VectorOf<VECTOR_BYTES> value{values[i]};
#pragma unroll
    for (int w = 0; w < kWords; ++w) value.words[w] = map_word<Element>(value.words[w], arguments, sum);
    if (kWriteAll) store(y + i * kWarpSize + lane, value.packed);
  }
  if (kWriteAll) return;
  sum = sum_across<kWarpSize>(sum);
  if (lane == 0) static_cast<float*>(arguments.out)[chunk] = sum;
}

__device__ __forceinline__ float affine(const Arguments& arguments, i64 i, float b) {
  return fmaf(arguments.a, Element::to_float(arguments.x[i]), b);
}

__device__ __forceinline__ float affine(const Arguments& arguments, i64 i) { return affine(arguments, i, arguments.b); }

// Maps the rest after the last whole tile, element by element: less than a tile, so no time goes here.
__device__ void map_tail(const Arguments& arguments, Lane at) {
  const i64 first_chunk = arguments.full_tiles() * kTileChunks;
  for (i64 chunk = first_chunk + at.warp; chunk * kChunk < arguments.elements; chunk += kWarps) {
    const i64 begin = chunk * kChunk, end = min_of((chunk + 1) * kChunk, arguments.elements);
    if constexpr (kWrite == Write::eighth) {
      for (i64 i = begin + at.lane; i < min_of(begin + kEighth, end); i += kWarpSize) {
        float sum = 0;
        for (i64 k = i; k < end; k += kEighth) sum += affine(arguments, k);
        static_cast<Element*>(arguments.out)[chunk * kEighth + i - begin] = Element::from_float(sum);
      }
      continue;
    }
    float sum = 0;
    for (i64 i = begin + at.lane; i < end; i += kWarpSize) {
      const float y = affine(arguments, i);
      if (kWrite == Write::all) static_cast<Element*>(arguments.out)[i] = Element::from_float(y);
      for (int version = 0; kWrite == Write::eightfold && version < kVersions; ++version) {
        static_cast<Element*>(arguments.out)[kVersions * begin + version * (end - begin) + i - begin] =
            Element::from_float(affine(arguments, i, (version + 1) * arguments.b));
      }
      sum += y;
    }
    sum = sum_across<kWarpSize>(sum);
    if (kWrite == Write::none && at.lane == 0) static_cast<float*>(arguments.out)[chunk] = sum;
  }
}

// --- vector -----------------------------------------------------------------------------------------------

#if LOADER_VECTOR
__device__ void map_tiles(const Arguments& arguments, Lane at) {
  const Vector* x = reinterpret_cast<const Vector*>(arguments.x);
  for (i64 tile = blockIdx.x; tile < arguments.passed_tiles(); tile += gridDim.x) {
    for (int c = at.warp; c < kTileChunks; c += kWarps) {
      const i64 chunk = arguments.place(tile) * kTileChunks + c;
      Vector values[kVectors];
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const Vector* source = x + (chunk * kVectors + i) * kWarpSize + at.lane;
        values[i] = EVICT_FIRST ? __ldcs(source) : __ldg(source);
      }
      map_chunk(arguments, chunk, at.lane, values);
    }
  }
}
#else

// --- shared memory ----------------------------------------------------------------------------------------

constexpr int kStages = STAGES;
extern __shared__ __align__(128) unsigned char ring[];  // [kStages][TILE_BYTES]

__device__ __forceinline__ void map_staged_tile(const Arguments& arguments, i64 tile, int stage, Lane at) {
  for (int c = at.warp; c < kTileChunks; c += kWarps) {
    const Vector* staged = reinterpret_cast<const Vector*>(ring + stage * TILE_BYTES + c * kChunkBytes);
    Vector values[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) values[i] = staged[i * kWarpSize + at.lane];
    map_chunk(arguments, arguments.place(tile) * kTileChunks + c, at.lane, values);
  }
}

__device__ __forceinline__ const unsigned char* tile_address(const Arguments& arguments, i64 tile) {
  return reinterpret_cast<const unsigned char*>(arguments.x) + arguments.place(tile) * TILE_BYTES;
}
#endif

// --- cp_async ---------------------------------------------------------------------------------------------

#if LOADER_CP_ASYNC
// Starts copying this warp's chunks of a tile. Past the last tile the group is empty, so that groups count
// tiles.
__device__ __forceinline__ void fetch(const Arguments& arguments, i64 tile, u32 stage_address, Lane at, u64 policy) {
  if (tile < arguments.passed_tiles()) {
    for (int c = at.warp; c < kTileChunks; c += kWarps) {
#pragma unroll
      for (int offset = at.lane * 16; offset < kChunkBytes; offset += kWarpSize * 16) {
        cp_async_16(stage_address + c * kChunkBytes + offset, tile_address(arguments, tile) + c * kChunkBytes + offset,
                    true, policy);
      }
    }
  }
  cp_async_commit();
}

__device__ void map_tiles(const Arguments& arguments, Lane at) {
  const u64 policy = l2_policy(EVICT_FIRST);
  const u32 base = in_vector_register(shared_address(ring));
  for (int stage = 0; stage < kStages; ++stage) {
    fetch(arguments, blockIdx.x + i64(stage) * gridDim.x, base + stage * TILE_BYTES, at, policy);
  }
  int stage = 0;
  for (i64 tile = blockIdx.x; tile < arguments.passed_tiles(); tile += gridDim.x) {
    cp_async_wait<kStages - 1>();  // this lane's part of the oldest tile
    __syncwarp();                  // ... and the other lanes'
    map_staged_tile(arguments, tile, stage, at);
    __syncwarp();  // all lanes have read the stage
    fetch(arguments, tile + i64(kStages) * gridDim.x, base + stage * TILE_BYTES, at, policy);
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
}
#endif

// --- bulk -------------------------------------------------------------------------------------------------

#if LOADER_BULK
__shared__ u64 full_barriers[kStages];   // the stage's bytes have landed
__shared__ u64 empty_barriers[kStages];  // every computing warp has read the stage

// A position in the ring and the parity of the lap it is in.
struct RingPosition {
  int stage = 0;
  u32 lap = 0;

  __device__ void advance() {
    stage = stage + 1 == kStages ? 0 : stage + 1;
    lap ^= stage == 0;
  }
  __device__ u32 full() const { return shared_address(full_barriers + stage); }
  __device__ u32 empty() const { return shared_address(empty_barriers + stage); }
};

__device__ void init_barriers() {
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(shared_address(full_barriers + stage), 1);
      mbarrier_init(shared_address(empty_barriers + stage), kWarps);
    }
    mbarrier_init_fence();
  }
  __syncthreads();
}

// One thread. Waits until the stage's last tile has been read, then has the copy engine fetch the next.
__device__ __forceinline__ void fetch(const Arguments& arguments, i64 tile, RingPosition position, u64 policy) {
  mbarrier_wait(position.empty(), position.lap ^ 1);
  mbarrier_arrive_expect(position.full(), TILE_BYTES);
  bulk_load(shared_address(ring + position.stage * TILE_BYTES), tile_address(arguments, tile), TILE_BYTES,
            position.full(), policy);
}

__device__ void produce(const Arguments& arguments, u64 policy) {
  RingPosition position;
  for (i64 tile = blockIdx.x; tile < arguments.passed_tiles(); tile += gridDim.x) {
    fetch(arguments, tile, position, policy);
    position.advance();
  }
}

__device__ void map_tiles(const Arguments& arguments, Lane at) {
  init_barriers();
  const u64 policy = l2_policy(EVICT_FIRST);
  const i64 tiles = arguments.passed_tiles();
  if (at.warp == kWarps) {
    if (at.lane == 0) produce(arguments, policy);
    return;
  }

  // Without a producer warp, the first thread runs ahead of itself: it refills a stage as soon as all have
  // read it.
  const bool refills = PRODUCERS == 0 && threadIdx.x == 0;
  RingPosition next;
  i64 next_tile = blockIdx.x;
  const auto refill = [&] {
    if (next_tile < tiles) fetch(arguments, next_tile, next, policy);
    next.advance();
    next_tile += gridDim.x;
  };
  if (refills) {
    for (int stage = 0; stage < kStages; ++stage) refill();
  }

  RingPosition position;
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    mbarrier_wait(position.full(), position.lap);
    map_staged_tile(arguments, tile, position.stage, at);
    __syncwarp();
    if (at.lane == 0) mbarrier_arrive(position.empty());
    if (refills) refill();
    position.advance();
  }
}
#endif

extern "C" __global__ void __launch_bounds__(kWarpSize*(WARPS + PRODUCERS))
    decode_kernel(const Element* x, void* out, float a, float b, i64 elements) {
  const Arguments arguments{x, out, a, b, elements};
  const Lane at;
  map_tiles(arguments, at);
  const bool takes_tail = blockIdx.x == arguments.full_tiles() % gridDim.x;  // it would be the next tile's block
  if (takes_tail && at.warp < kWarps) map_tail(arguments, at);
}
