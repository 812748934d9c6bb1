#include "tests/gpu/planted.h"

#include <algorithm>

#include "tests/gpu/planted_base.h"

namespace moetune {
namespace {

constexpr std::uint32_t kThreads = 256;

std::uint32_t blocks_for(std::int64_t elements) {
  return static_cast<std::uint32_t>((elements + kThreads - 1) / kThreads);
}

Buffer input(const std::string& name, DType type, std::int64_t elements, Fill::Kind kind, float scale) {
  Buffer buffer{.name = name, .dtype = type, .elements = elements};
  buffer.fill.kind = kind;
  buffer.fill.scale = scale;
  return buffer;
}

class PlantedKernel final : public PlantedBase {
 public:
  PlantedKernel() : PlantedBase("planted") {}

  std::vector<Buffer> buffers(const Problem& problem, const Call&, std::uint64_t) const override {
    const std::int64_t n = problem["elements"];
    Buffer x = input("x", DType::f32, n, Fill::Kind::normal, 1);
    x.rotates = true;
    Buffer y{.name = "y", .dtype = DType::bf16, .elements = n, .role = Role::output};
    std::vector<Buffer> buffers = {x, y};
    for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::e4m3}) {
      const std::string suffix(dtype_name(type));
      buffers.push_back(input("normal_" + suffix, type, n, Fill::Kind::normal, 0.75f));
      // Far past f16's and e4m3's largest values, and far below their smallest.
      buffers.push_back(input("large_" + suffix, type, n, Fill::Kind::uniform, 1e5f));
      buffers.push_back(input("small_" + suffix, type, n, Fill::Kind::uniform, 3e-3f));
      buffers.push_back(input("tiny_" + suffix, type, n, Fill::Kind::normal, 1e-38f));
      buffers.back().fill.poison = {{0, 1}, {n / 3, 7}, {n - 2, 2}};
      buffers.push_back(input("zeros_" + suffix, type, n, Fill::Kind::zeros, 1));
    }
    const std::int64_t listed = std::min<std::int64_t>(n, 1 << 20);  // these travel to the worker one by one
    Buffer ids = input("ids", DType::i32, listed, Fill::Kind::integers, 1);
    for (std::int64_t i = 0; i < listed; ++i) ids.fill.integers.push_back(static_cast<std::int32_t>(i * i - 5));
    buffers.push_back(ids);
    Buffer counts = ids;  // the same integers as f32
    counts.name = "counts";
    counts.dtype = DType::f32;
    buffers.push_back(counts);
    for (const DType type : {DType::i64, DType::u8, DType::bf16, DType::e4m3}) {
      buffers.push_back(ids);
      buffers.back().name = "ids_" + std::string(dtype_name(type));
      buffers.back().dtype = type;
    }
    for (const DType type : {DType::i32, DType::i64, DType::f32}) {
      buffers.push_back(input("permuted_" + std::string(dtype_name(type)), type, n, Fill::Kind::permutation, 1));
      buffers.back().fill.poison = {{n / 2, 3}};
    }
    for (const DType type : {DType::i32, DType::i64, DType::u8, DType::f16}) {
      buffers.push_back(input("zipf_" + std::string(dtype_name(type)), type, n, Fill::Kind::zipf, 1.1f));
      buffers.back().fill.values = 200;
      if (type == DType::f16) {
        buffers.push_back(input("columns_f16", type, n, Fill::Kind::columns, 0.7f));
        buffers.back().fill.shifts = {0, 1.25f, -3};
      }
      buffers.push_back(input("constant_" + std::string(dtype_name(type)), type, n, Fill::Kind::constant, -7));
    }
    return buffers;
  }

  Plan reference(Reference which, const Problem& problem, const Call&, const DeviceLimits& limits) const override {
    return planted_plan(which == Reference::exact ? "EXACT" : "", problem["elements"], limits);
  }

  Cost cost(const Problem& problem) const override {
    const auto elements = static_cast<double>(problem["elements"]);
    return {.read_bytes = 4 * elements, .written_bytes = 2 * elements};
  }

 private:
  Plan right_plan(std::int64_t elements, const DeviceLimits& limits) const override {
    return planted_plan("", elements, limits);
  }
};

}  // namespace

const Kernel& planted_kernel() {
  static const PlantedKernel kernel;
  return kernel;
}

Problem planted_problem(std::int64_t elements) { return {"planted", {{"elements", Value::integer(elements)}}}; }

// Two launches: the first writes half of the result to scratch, the second, overlapping it as PDL allows,
// doubles that. The first runs in clusters of two.
Plan planted_plan(const std::string& bug, std::int64_t elements, const DeviceLimits& limits) {
  Plan plan;
  plan.unit.source = kPlantedSource;
  if (!bug.empty()) plan.unit.defines = {{bug, "1"}};
  plan.scratch = {{"half", 4 * elements, false}, {"runs", 4, false}, {"counter", 4, true}};
  const Argument n = {"n", elements};

  Launch copy;
  copy.entry = "planted_copy";
  copy.grid[0] = (blocks_for(elements) + 1) / 2 * 2;
  copy.block[0] = kThreads;
  if (limits.compute_capability >= 90) copy.cluster[0] = 2;
  copy.arguments = {{"x", Pointer{"x"}}, {"tiny", Pointer{"tiny_f32"}}, {"half", Pointer{"half"}}, n};

  Launch twice;
  twice.entry = "planted_twice";
  twice.grid[0] = blocks_for(elements);
  twice.block[0] = kThreads;
  twice.dynamic_shared = 64 << 10;
  twice.programmatic_dependent = limits.compute_capability >= 90;
  twice.arguments = {
      {"half", Pointer{"half"}}, {"y", Pointer{"y"}}, {"runs", Pointer{"runs"}}, {"counter", Pointer{"counter"}}, n};
  plan.launches = {copy, twice};
  return plan;
}

// Each macro plants one bug; EXACT makes the f32 reference.
const std::string& planted_source() {
  static const std::string source = R"cuda(
typedef long long i64;

#if EXACT
typedef float Output;
__device__ Output rounded(float value) { return value; }
#else
typedef unsigned short Output;
__device__ Output rounded(float value) {
  Output bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
#endif

__device__ i64 index_of_thread() { return i64(blockIdx.x) * blockDim.x + threadIdx.x; }

extern "C" __global__ void planted_copy(const float* x, const float* poisoned, float* half, i64 n) {
  const i64 i = index_of_thread();
#if READS_POISON
  if (i < n) half[i] = x[i] + 0.0f * poisoned[i];
#elif READS_PAST_END
  if (i < n) half[i] = x[i] + 0.0f * x[i + 1];
#else
  if (i < n) half[i] = x[i];
#endif
#if CHANGES_INPUT
  if (i == n / 2) const_cast<float*>(x)[i] += 1.0f;
#endif
#if OVERRUNS_SCRATCH
  if (i == 0) half[n] = 1.0f;
#endif
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

extern "C" __global__ void planted_twice(const float* half, Output* y, int* runs, int* counter, i64 n) {
  extern __shared__ float staged[];
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  const i64 i = index_of_thread();
  if (i >= n) return;
  staged[threadIdx.x] = half[i];
  float value = 2.0f * staged[threadIdx.x];
#if ONE_WRONG
  if (i == n / 2) value += 0.5f;
#endif
#if ALL_ZERO
  value = 0.0f;
#endif
#if WEARS
  if (i == 0) atomicAdd(runs, 1);
  if (*reinterpret_cast<volatile int*>(runs) > 2) value *= 1.5f;  // from -1 on
#endif
#if KEEPS_COUNTER
  if (i == 0) *counter = 1;
#endif
#if HANGS
  while (*reinterpret_cast<volatile int*>(runs) == -1) {
  }
#endif
#if FAULTS
  if (i == 0) *reinterpret_cast<volatile int*>(16) = 1;
#endif
#if SKIPS_ONE
  if (i == n - 1) return;
#endif
  y[i] = rounded(value);
#if WRITES_PAST_END
  if (i == n - 1) y[n + 2] = rounded(1.0f);
#endif
#if WRITES_BEFORE
  if (i == 0) y[-1] = rounded(1.0f);
#endif
}
)cuda";
  return source;
}

}  // namespace moetune
