// tensor_ceiling: dense matrix products from shared memory, the yardstick of tensor cores. Every tile is 64x256
// sums over `depth` products of small random integers, so that every order of adding them gives the same; what is
// written are the sums of its rows, over 64 columns at a time.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/integers.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

// templates/tensor_ceiling/tiles.cuh has them too. K repeats its first kPeriod operands; even and odd tiles have
// an `a` each.
constexpr std::int64_t kRows = 64, kColumns = 256, kPeriod = 128, kSets = 2;
constexpr std::int64_t kSumColumns = 64, kTileSums = kRows * kColumns / kSumColumns;
constexpr std::int64_t kGroupThreads = 128;
constexpr std::int64_t kReferenceThreads = 256, kMostReferenceBlocks = 65536;
// Operands are rounded to integers, so that sums are exact: -31 to 31, and for e4m3, whose products are summed
// with fewer bits, -2 to 2. At the largest depth sums of random operands reach a half of 2^24. Fewer bits toggle
// than in a model's tensors, so the ceiling is one that no kernel passes, not one that every kernel reaches.
float operand_scale(const Problem& problem) { return problem.is("dtype", "e4m3") ? 2.5f : 31.5f; }
constexpr int kFirstWithE4m3 = 89;  // before it fp16 stands in for e4m3

struct Shape {
  explicit Shape(const Problem& problem)
      : tiles(problem["tiles"]),
        periods(problem["depth"] / kPeriod),
        dtype(problem.dims.at("dtype").text()) {}

  std::int64_t operand_bytes(const DeviceLimits& limits) const {
    return dtype == "e4m3" && limits.compute_capability >= kFirstWithE4m3 ? 1 : 2;
  }
  Shape at(const Extents& extents) const {
    Shape other = *this;
    other.tiles = extents[0];
    other.periods = extents[1] / kPeriod;
    return other;
  }

  std::int64_t tiles, periods;
  std::string dtype;
};

void add_arguments(Launch& launch, const Shape& shape) {
  launch.arguments = {{"a", Pointer{"a"}},
                      {"b", Pointer{"b"}},
                      {"sums", Pointer{"sums"}},
                      {"tiles", shape.tiles},
                      {"periods", static_cast<std::int32_t>(shape.periods)}};
}

CompileUnit unit_of(const Config& config, const Shape& shape) {
  const char* const type = shape.dtype == "bf16" ? "Bf16" : shape.dtype == "fp16" ? "Fp16" : "E4m3";
  return {"templates/tensor_ceiling/tensor_ceiling.cu",
          {{"DTYPE", type},
           {"WGMMA", config.is("instruction", "wgmma") ? "1" : "0"},
           {"COLUMNS", config.at("columns").text()},
           {"GROUPS", config.at("groups").text()},
           {"AHEAD", config.at("ahead").text()}}};
}

class TensorCeiling final : public Kernel {
 public:
  const std::string& name() const override { return name_; }
  const std::string& summary() const override { return summary_; }
  const ProblemSchema& schema() const override { return schema_; }
  const std::vector<Preset>& presets() const override { return presets_; }

  void check(const Problem& problem) const override {
    if (problem["depth"] % kPeriod != 0) {
      throw BadInput("tensor_ceiling: depth=" + std::to_string(problem["depth"]) + " is no multiple of " +
                     std::to_string(kPeriod));
    }
  }

  const std::vector<std::string>& free_dimensions() const override {
    static const std::vector<std::string> names = {"tiles", "depth"};
    return names;
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call&, std::uint64_t) const override {
    Buffer a{.name = "a", .dtype = DType::f32, .elements = kSets * kRows * kPeriod};
    a.fill.kind = Fill::Kind::uniform;
    a.fill.scale = operand_scale(problem);
    Buffer b = a;
    b.name = "b";
    b.elements = kColumns * kPeriod;
    Buffer sums{.name = "sums",
                .dtype = DType::f32,
                .elements = Shape(problem).tiles * kTileSums,
                .role = Role::output};
    sums.check = OutputCheck::exact();  // integers, whose sums are exact in any order
    return {a, b, sums};
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    const Shape of(problem);
    const std::int64_t groups = config.number("groups");
    const std::int64_t blocks = config.number("blocks_per_sm") * limits.sm_count;
    const std::int64_t shared_bytes = (kSets * kRows + kColumns) * kPeriod * of.operand_bytes(limits);
    return make_launcher(unit_of(config, of), [=](const Extents& extents, const Call&, LaunchPlan& plan) {
      const Shape shape = of.at(extents);
      Launch& launch = plan.launches.emplace_back();
      launch.entry = "tensor_ceiling";
      launch.grid[0] = static_cast<std::uint32_t>(std::min(ceil_div(shape.tiles, groups), blocks));
      launch.block[0] = static_cast<std::uint32_t>(groups * kGroupThreads);
      launch.dynamic_shared = static_cast<std::uint32_t>(shared_bytes);
      add_arguments(launch, shape);
    });
  }

  // Both references are the same: integers are exact in every type.
  Plan reference(Reference, const Problem& problem, const Call&, const DeviceLimits&) const override {
    const Shape shape(problem);
    Plan plan;
    plan.unit = {"templates/tensor_ceiling/reference.cu", {}};
    Launch& launch = plan.launches.emplace_back();
    launch.entry = "tensor_ceiling_reference";
    launch.grid[0] = static_cast<std::uint32_t>(
        std::min(ceil_div(shape.tiles * kTileSums, kReferenceThreads), kMostReferenceBlocks));
    launch.block[0] = kReferenceThreads;
    add_arguments(launch, shape);
    return plan;
  }

  Cost cost(const Problem& problem) const override {
    const Shape shape(problem);
    Cost cost{.read_bytes = 4.0 * (kSets * kRows + kColumns) * kPeriod,
              .written_bytes = 4.0 * kTileSums * static_cast<double>(shape.tiles)};
    double& flops = shape.dtype == "bf16"   ? cost.flops.bf16
                    : shape.dtype == "fp16" ? cost.flops.fp16
                                            : cost.flops.e4m3;
    flops = 2.0 * kRows * kColumns * kPeriod * static_cast<double>(shape.periods * shape.tiles);
    return cost;
  }

 private:
  const std::string name_ = "tensor_ceiling";
  const std::string summary_ = "dense matrix products from shared memory: the yardstick of tensor cores";
  // Sums stay below 2^24, which fp32 counts to exactly.
  const ProblemSchema schema_ = {
      {"tiles", "tiles of 64x256 sums", Value::integer(4096), 1, std::int64_t{1} << 24, {}},
      {"depth", "products in each sum, a multiple of 128", Value::integer(4096), kPeriod, 8192, {}},
      {"dtype", "type of the operands", Value::named("bf16", 0), 0, 0, {"bf16", "fp16", "e4m3"}}};
  const std::vector<Preset> presets_ = {{"bf16", "0.55 TFLOP of bf16", {{"dtype", "bf16"}}},
                                        {"fp16", "0.55 TFLOP of fp16", {{"dtype", "fp16"}}},
                                        {"e4m3", "0.55 TFLOP of e4m3", {{"dtype", "e4m3"}}}};
};

}  // namespace

const Kernel& tensor_ceiling() {
  static const TensorCeiling kernel;
  return kernel;
}

}  // namespace moetune
