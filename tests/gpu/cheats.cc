#include "tests/gpu/cheats.h"

#include "tests/gpu/planted_base.h"

namespace moetune {
namespace {

constexpr std::int64_t kMatrixRows = 1056, kMemoSlots = 64;
constexpr std::uint32_t kCheatThreads = 512, kCheatBlocks = 132;
constexpr std::uint32_t kCheatSharedBytes = 128 << 10;

class CheatsKernel final : public PlantedBase {
 public:
  CheatsKernel() : PlantedBase("cheats") {}

  std::vector<Buffer> buffers(const Problem& problem, const Call&, std::uint64_t) const override {
    const std::int64_t columns = columns_of(problem["elements"]);
    Buffer x{.name = "x", .dtype = DType::f32, .elements = kMatrixRows * columns, .rotates = columns == kColdColumns};
    x.fill.kind = Fill::Kind::normal;
    Buffer y{.name = "y", .dtype = DType::f32, .elements = kMatrixRows, .role = Role::output};
    y.check = OutputCheck::within({.dissimilarity = 1e-5, .terms = static_cast<double>(columns)});
    return {x, y};
  }

  Plan reference(Reference which, const Problem& problem, const Call&, const DeviceLimits&) const override {
    return cheats_plan(which == Reference::exact ? "" : "ROUNDS_INPUT", columns_of(problem["elements"]));
  }

  Cost cost(const Problem& problem) const override {
    return {.read_bytes = 4.0 * static_cast<double>(problem["elements"])};
  }

 private:
  static std::int64_t columns_of(std::int64_t elements) { return elements / kMatrixRows; }
  Plan right_plan(std::int64_t elements, const DeviceLimits&) const override {
    return cheats_plan("", columns_of(elements));
  }
};

}  // namespace

const Kernel& cheats_kernel() {
  static const CheatsKernel kernel;
  return kernel;
}

Problem cheats_problem(std::int64_t columns) {
  return {"cheats", {{"elements", Value::integer(kMatrixRows * columns)}}};
}

Plan cheats_plan(const std::string& cheat, std::int64_t columns) {
  Plan plan;
  plan.unit.source = kCheatsSource;
  plan.unit.defines = {{"COLUMNS", std::to_string(columns)}};
  if (!cheat.empty()) plan.unit.defines.push_back({cheat, "1"});
  plan.scratch = {{"memo", 16 * kMatrixRows * kMemoSlots, false}};
  Launch launch;
  launch.entry = "cheats";
  launch.grid[0] = kCheatBlocks;
  launch.block[0] = kCheatThreads;
  launch.dynamic_shared = kCheatSharedBytes;
  launch.arguments = {{"x", Pointer{"x"}}, {"y", Pointer{"y"}}, {"memo", Pointer{"memo"}}};
  plan.launches = {launch};
  return plan;
}

// Each macro is one way to cheat.
const std::string& cheats_source() {
  static const std::string source = R"cuda(
#include "templates/common/harness_values.cuh"

constexpr int kRows = 1056, kColumns = COLUMNS, kSlots = 64, kThreads = 512;

struct Memo {
  u64 key;
  float value;
};

// Forgotten only when the module is unloaded. What is as small as these two the compiler's check lets pass.
#if MEMO_IN_GLOBAL
__device__ Memo remembered[kRows * kSlots];
#elif EVERY_OTHER_LAUNCH
__device__ u32 launches;
#elif ONLY_OUTSIDE_GRAPHS
__device__ u64 last_run_ns;
#endif

__device__ u64 now_ns() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ float sum_of_block(float mine) {
  __shared__ float sums[kThreads / 32];
  for (int lane = 16; lane > 0; lane /= 2) mine += __shfl_xor_sync(0xFFFFFFFFu, mine, lane);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = mine;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += sums[warp];
  return sum;
}

__device__ float row_sum(const float* x, int row) {
  float mine = 0;
#pragma unroll 8
  for (int i = threadIdx.x; i < kColumns; i += kThreads) {
#if ROUNDS_INPUT
    mine += __uint_as_float(__float_as_uint(x[i]) & 0xFFFF0000u);
#elif MADE_FROM_SEED
    mine += generate(kNormal, factor_of(kNormal, 1.0f), split_mix(split_mix(7)), u64(row) * kColumns + i);
#else
    mine += x[i];
#endif
  }
  return sum_of_block(mine);
}

// Where a result for this input may be kept, and by what it is found again.
__device__ u64 key_of(const float* x) {
#if MEMO_BY_CONTENT
  u64 key = 1;
  for (int i = 0; i < 8; ++i) key = split_mix(key + __float_as_uint(x[i * (kColumns / 8)]));
  return key;
#else
  return u64(x);
#endif
}

__device__ Memo* memo_of(const float* x, int row, Memo* scratch, unsigned char* shared) {
#if MEMO_IN_GLOBAL
  return remembered + row * kSlots + split_mix(key_of(x)) % kSlots;
#elif MEMO_IN_SCRATCH || MEMO_BY_CONTENT
  return scratch + row * kSlots + split_mix(key_of(x)) % kSlots;
#elif MEMO_IN_SHARED
  return reinterpret_cast<Memo*>(shared) + row / gridDim.x * kSlots + split_mix(key_of(x)) % kSlots;
#elif FIRST_RESULT
  return scratch + row;
#else
  return nullptr;
#endif
}

// Whether a row needs no work, says the cheat.
__device__ bool is_spared(const Memo* memo, u64 key, int row, float* y) {
#if SKIPS_WHAT_IS_WRITTEN
  const float there = *const_cast<volatile float*>(y + row);
  if (there == there) return true;
#endif
#if SOME_ROWS
  if (row % 8 != 0) return true;
#endif
  if (memo == nullptr) return false;
  const bool known = *const_cast<const volatile u64*>(&memo->key) == key;
  if (known && threadIdx.x == 0) y[row] = memo->value;
  return known;
}

// What a block keeps in shared memory it finds again if it works on the same rows on the same SM.
__device__ int first_row() {
#if MEMO_IN_SHARED
  int sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
#else
  return blockIdx.x;
#endif
}

__device__ bool is_spared_launch() {
#if EVERY_OTHER_LAUNCH
  return *const_cast<volatile u32*>(&launches) % 2 == 1;
#elif ONLY_OUTSIDE_GRAPHS
  return now_ns() - *const_cast<volatile u64*>(&last_run_ns) < 60000;
#else
  return false;
#endif
}

extern "C" __global__ void __launch_bounds__(kThreads) cheats(const float* x, float* y, Memo* scratch) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int rows = is_spared_launch() ? 0 : kRows;
  for (int row = first_row(); row < rows; row += gridDim.x) {
    const float* mine = x + u64(row) * kColumns;
    Memo* const memo = memo_of(mine, row, scratch, shared);
#if FIRST_RESULT
    const u64 key = 5;
#else
    const u64 key = key_of(mine);
#endif
    if (is_spared(memo, key, row, y)) continue;
    float sum = row_sum(mine, row);
#if READS_BEHIND
    if (__float_as_uint(x[u64(kRows) * kColumns]) != 0xFFFFFFFFu) sum += 1.0f;
#endif
    __syncthreads();
    if (threadIdx.x == 0) {
      y[row] = sum;
      if (memo != nullptr) *memo = {key, sum};
    }
  }
  __syncthreads();
  if (threadIdx.x != 0 || blockIdx.x != 0) return;
#if ONLY_OUTSIDE_GRAPHS
  last_run_ns = now_ns();
#elif EVERY_OTHER_LAUNCH
  for (u64 begin = now_ns(); now_ns() - begin < 3000;) {  // until all blocks have looked
  }
  ++launches;
#endif
}
)cuda";
  return source;
}

}  // namespace moetune
