#include "tests/gpu/planted_ids.h"

#include <algorithm>
#include <vector>

#include "tests/gpu/planted_base.h"

namespace moetune {
namespace {

constexpr std::uint32_t kIdThreads = 256;

// In the order of the template's parameters; their position is TARGET.
std::vector<Buffer> outputs(std::int64_t n) {
  const auto output = [n](const char* name, DType type, OutputCheck check) {
    Buffer buffer{.name = name, .dtype = type, .elements = n, .role = Role::output};
    buffer.check = std::move(check);
    return buffer;
  };
  std::vector<Buffer> buffers = {output("exact_i32", DType::i32, OutputCheck::exact()),
                                 output("exact_i64", DType::i64, OutputCheck::exact()),
                                 output("exact_u8", DType::u8, OutputCheck::exact()),
                                 output("sets_i32", DType::i32, OutputCheck::sets_between("offsets")),
                                 output("sets_i64", DType::i64, OutputCheck::sets_of(8)),
                                 output("exact_bf16", DType::bf16, OutputCheck::exact()),
                                 output("y", DType::f32, OutputCheck::within({})),
                                 output("total", DType::bf16, OutputCheck::within({}))};
  buffers.back().role = Role::in_out;
  buffers.back().fill.kind = Fill::Kind::uniform;
  return buffers;
}

class PlantedIdsKernel final : public PlantedBase {
 public:
  PlantedIdsKernel() : PlantedBase("planted_ids") {}

  std::vector<Buffer> buffers(const Problem& problem, const Call&, std::uint64_t) const override {
    const std::int64_t n = problem["elements"];
    Buffer from{.name = "from", .dtype = DType::i32, .elements = n};
    from.fill.kind = Fill::Kind::permutation;
    Buffer x{.name = "x", .elements = n};
    x.fill.kind = Fill::Kind::normal;
    Buffer offsets{.name = "offsets", .dtype = DType::i32, .elements = 4};
    offsets.fill = {Fill::Kind::integers, 1, {4, 4, 100, static_cast<std::int32_t>(n / 8 * 7)}, {}};
    std::vector<Buffer> all = {from, x, offsets};
    for (Buffer& buffer : outputs(n)) all.push_back(std::move(buffer));
    return all;
  }

  Plan reference(Reference which, const Problem& problem, const Call&, const DeviceLimits&) const override {
    Plan plan = planted_ids_plan("", "", problem["elements"]);
    if (which == Reference::exact) plan.unit.defines.emplace_back("EXACT", "1");
    return plan;
  }

  Cost cost(const Problem& problem) const override { return {40.0 * static_cast<double>(problem["elements"]), 0}; }

 private:
  Plan right_plan(std::int64_t elements, const DeviceLimits&) const override {
    return planted_ids_plan("", "", elements);
  }
};

}  // namespace

const Kernel& planted_ids_kernel() {
  static const PlantedIdsKernel kernel;
  return kernel;
}

Problem planted_ids_problem(std::int64_t elements) { return {"planted_ids", {{"elements", Value::integer(elements)}}}; }

Plan planted_ids_plan(const std::string& output, const std::string& bug, std::int64_t elements) {
  const std::vector<Buffer> all = outputs(elements);
  Plan plan;
  plan.unit.source = kPlantedIdsSource;
  const auto target = std::find_if(all.begin(), all.end(), [&](const Buffer& b) { return b.name == output; });
  plan.unit.defines.emplace_back("TARGET", std::to_string(target - all.begin()));
  if (!bug.empty()) plan.unit.defines.emplace_back(bug, "1");
  Launch launch;
  launch.entry = "planted_ids";
  launch.grid[0] = static_cast<std::uint32_t>((elements + kIdThreads - 1) / kIdThreads);
  launch.block[0] = kIdThreads;
  launch.arguments = {{"from", Pointer{"from"}}, {"x", Pointer{"x"}}};
  for (const Buffer& buffer : all) launch.arguments.push_back({buffer.name, Pointer{buffer.name}});
  launch.arguments.push_back({"n", elements});
  plan.launches = {launch};
  return plan;
}

// A bug is in the element in the middle, or swaps it with its neighbour (of the same segment), or the first
// with the last.
const std::string& planted_ids_source() {
  static const std::string source = R"cuda(
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;

__device__ u16 to_bf16(float value) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
__device__ float of_bf16(u16 bits) { return __uint_as_float(unsigned(bits) << 16); }

#if EXACT
typedef float Output;
__device__ Output rounded(float value) { return value; }
__device__ float widened(Output value) { return value; }
#else
typedef u16 Output;
__device__ Output rounded(float value) { return to_bf16(value); }
__device__ float widened(Output value) { return of_bf16(value); }
#endif

__device__ bool buggy(int target, i64 i, i64 n) { return target == TARGET && i == n / 2; }

// The element whose value element i gets.
__device__ i64 source_of(int target, i64 i, i64 n) {
#if SWAPS_INSIDE
  if (target == TARGET && i / 2 == n / 4) return i ^ 1;
#endif
#if SWAPS_ACROSS
  if (target == TARGET && (i == 0 || i == n - 1)) return n - 1 - i;
#endif
  return i;
}

__device__ i64 id_of(int target, const int* from, i64 i, i64 n) {
  i64 id = from[source_of(target, i, n)];
#if OFF_BY_1
  if (buggy(target, i, n)) id += 1;
#endif
#if OFF_BY_100
  if (buggy(target, i, n)) id += 100;
#endif
  return id;
}

__device__ float number_of(int target, const float* x, float factor, i64 i, i64 n) {
  const float value = factor * x[source_of(target, i, n)];
#if ONE_NAN
  if (buggy(target, i, n)) return __int_as_float(0x7FFFFFFF);
#endif
#if OFF_BY_1
  if (buggy(target, i, n)) return value + 1.0f;
#endif
  return value;
}

__device__ bool skipped(int target, i64 i, i64 n) {
#if SKIPS_ONE
  return buggy(target, i, n);
#else
  return false;
#endif
}

extern "C" __global__ void planted_ids(const int* from, const float* x, int* exact_i32, i64* exact_i64,
                                       u8* exact_u8, int* sets_i32, i64* sets_i64, Output* exact_bf16,
                                       float* y, Output* total, i64 n) {
  const i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (!skipped(0, i, n)) exact_i32[i] = int(id_of(0, from, i, n));
  if (!skipped(1, i, n)) exact_i64[i] = (i64(from[i]) << 40) + id_of(1, from, i, n);
  if (!skipped(2, i, n)) exact_u8[i] = u8(id_of(2, from, i, n));
  if (!skipped(3, i, n)) sets_i32[i] = int(id_of(3, from, i, n));
  if (!skipped(4, i, n)) sets_i64[i] = id_of(4, from, i, n) << 33;
  // Exact in bf16, so that the copy must equal the reference's f32.
  if (!skipped(5, i, n)) exact_bf16[i] = rounded(of_bf16(to_bf16(number_of(5, x, 1.0f, i, n))));
  if (!skipped(6, i, n)) y[i] = number_of(6, x, 2.0f, i, n);
  if (!skipped(7, i, n)) total[i] = rounded(widened(total[i]) + number_of(7, x, 1.0f, i, n));
}
)cuda";
  return source;
}

}  // namespace moetune
