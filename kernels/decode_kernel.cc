// decode_kernel: y = a*x + b, the smallest tunable kernel, and the yardstick of memory bandwidth. Its
// output (all of y, sums of it, several versions) sets the mix of bytes read and written; several passes over
// an x that fits L2 measure that.
#include <algorithm>
#include <string>

#include "base/integers.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

constexpr float kA = 0.7071f;
constexpr float kB = 0.25f;
constexpr std::int64_t kChunk = 1024;  // elements of a sum; templates/decode_kernel/elements.cuh has it too
constexpr std::uint32_t kReferenceThreads = 256;

constexpr std::int64_t kEighth = kChunk / 8, kVersions = 8;  // likewise

// The amount that is written; templates/decode_kernel/elements.cuh explains each value.
enum class Write { all, none, eighth, eightfold };
constexpr const char* kWriteNames[] = {"all", "none", "eighth", "eightfold"};

// The problem by name.
struct Shape {
  explicit Shape(const Problem& problem)
      : elements(problem["elements"]),
        passes(problem["passes"]),
        write(static_cast<Write>(problem["write"])),
        dtype(problem.is("dtype", "f32")    ? DType::f32
              : problem.is("dtype", "bf16") ? DType::bf16
                                            : DType::f16) {}

  Shape at(const Extents& extents) const {
    Shape other = *this;
    other.elements = extents[0];
    return other;
  }

  bool writes_sums() const { return write == Write::none || write == Write::eighth; }
  std::string output() const { return writes_sums() ? "sums" : "y"; }
  DType output_type() const { return write == Write::none ? DType::f32 : dtype; }
  std::int64_t output_elements() const {
    if (write == Write::none) return ceil_div(elements, kChunk);
    if (write == Write::eighth) return elements / kChunk * kEighth + std::min(elements % kChunk, kEighth);
    return write == Write::eightfold ? kVersions * elements : elements;
  }
  // An x that is read several times is the same one in every launch.
  Inputs inputs() const { return passes > 1 ? Inputs::warm : Inputs::cold; }
  const char* write_name() const { return kWriteNames[static_cast<int>(write)]; }
  std::string element_type() const {
    return dtype == DType::f32 ? "F32" : dtype == DType::bf16 ? "Bf16" : "Fp16";
  }

  std::int64_t elements, passes;
  Write write;
  DType dtype;
};

void add_arguments(Launch& launch, const Shape& shape) {
  launch.arguments = {{"x", Pointer{"x"}},
                      {"out", Pointer{shape.output()}},
                      {"a", kA},
                      {"b", kB},
                      {"elements", shape.elements}};
}

// Blocks that take the tiles in turn; 0 a SM: a block a tile.
std::uint32_t grid_of(std::int64_t tiles, std::int64_t blocks_per_sm, const DeviceLimits& limits) {
  const std::int64_t most = blocks_per_sm > 0 ? blocks_per_sm * limits.sm_count : tiles;
  return static_cast<std::uint32_t>(std::max<std::int64_t>(1, std::min(tiles, most)));
}

CompileUnit unit_of(const Config& config, const Shape& shape) {
  const auto flag = [](bool is) { return std::string(is ? "1" : "0"); };
  return {"templates/decode_kernel/decode_kernel.cu",
          {{"DTYPE", shape.element_type()},
           {"WRITE", shape.write_name()},
           {"PASSES", std::to_string(shape.passes)},
           {"LOADER_VECTOR", flag(config.is("loader", "vector"))},
           {"LOADER_CP_ASYNC", flag(config.is("loader", "cp_async"))},
           {"LOADER_BULK", flag(config.is("loader", "bulk"))},
           {"VECTOR_BYTES", config.at("vector_bytes").text()},
           {"TILE_BYTES", std::to_string(1024 * config.number("tile_kib"))},
           {"STAGES", config.at("stages").text()},
           {"WARPS", config.at("warps").text()},
           {"PRODUCERS", config.at("producers").text()},
           {"EVICT_FIRST", flag(config.is("l2", "evict_first"))}}};
}

class DecodeKernel final : public Kernel {
 public:
  const std::string& name() const override { return name_; }
  const std::string& summary() const override { return summary_; }
  const ProblemSchema& schema() const override { return schema_; }
  const std::vector<Preset>& presets() const override { return presets_; }
  void check(const Problem&) const override {}  // the dimensions are independent

  const std::vector<std::string>& free_dimensions() const override {
    static const std::vector<std::string> names = {"elements"};
    return names;
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call&, std::uint64_t) const override {
    const Shape shape(problem);
    Buffer x{.name = "x",
             .dtype = shape.dtype,
             .elements = shape.elements,
             .rotates = shape.inputs() == Inputs::cold,
             .fresh = true};
    x.fill.kind = Fill::Kind::normal;
    Buffer out{.name = shape.output(),
               .dtype = shape.output_type(),
               .elements = shape.output_elements(),
               .role = Role::output};
    // Rounding y to bf16 alone gives a dissimilarity near 1e-6. A sum's terms may be added in any order.
    const double terms =
        static_cast<double>(shape.passes * shape.elements) / static_cast<double>(shape.output_elements());
    out.check = OutputCheck::within(
        {.dissimilarity = 1e-5, .baseline_factor = 2.0, .terms = shape.writes_sums() ? terms : 1});
    return {x, out};
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    const Shape of(problem);
    const std::int64_t tile_bytes = 1024 * config.number("tile_kib");
    const std::int64_t stages = config.number("stages"), blocks_per_sm = config.number("blocks_per_sm");
    const std::int64_t threads = 32 * (config.number("warps") + config.number("producers"));
    const bool staged = !config.is("loader", "vector");
    return make_launcher(unit_of(config, of), [=](const Extents& extents, const Call&, LaunchPlan& plan) {
      const Shape shape = of.at(extents);
      const std::int64_t tiles = shape.passes * (shape.elements * dtype_bytes(shape.dtype) / tile_bytes);
      Launch& launch = plan.launches.emplace_back();
      launch.entry = "decode_kernel";
      launch.grid[0] = grid_of(tiles, blocks_per_sm, limits);
      launch.block[0] = static_cast<std::uint32_t>(threads);
      launch.dynamic_shared = static_cast<std::uint32_t>(staged ? tile_bytes * stages : 0);
      add_arguments(launch, shape);
    });
  }

  Plan reference(Reference which, const Problem& problem, const Call&, const DeviceLimits&) const override {
    const Shape shape(problem);
    Plan plan;
    plan.unit = {"templates/decode_kernel/reference.cu",
                 {{"DTYPE", shape.element_type()},
                  {"WRITE", shape.write_name()},
                  {"EXACT", which == Reference::exact ? "1" : "0"}}};
    Launch& launch = plan.launches.emplace_back();
    launch.entry = "decode_kernel_reference";
    const std::int64_t blocks =
        ceil_div(std::min(shape.elements, shape.output_elements()), kReferenceThreads);
    launch.grid[0] = static_cast<std::uint32_t>(std::min<std::int64_t>(blocks, 65536));
    launch.block[0] = kReferenceThreads;
    add_arguments(launch, shape);
    return plan;
  }

  Cost cost(const Problem& problem) const override {
    const Shape shape(problem);
    const auto passes = static_cast<double>(shape.passes), elements = static_cast<double>(shape.elements);
    const auto written = static_cast<double>(shape.output_elements() * dtype_bytes(shape.output_type()));
    const double flops_each = shape.writes_sums() ? 3 : shape.write == Write::eightfold ? 2.0 * kVersions : 2;
    return {.read_bytes = passes * elements * static_cast<double>(dtype_bytes(shape.dtype)),
            .written_bytes = passes * written,
            .flops = {.fp32 = passes * flops_each * elements},
            .inputs = shape.inputs()};
  }

 private:
  const std::string name_ = "decode_kernel";
  const std::string summary_ =
      "y = a*x + b staged through shared memory: the tutorial and the bandwidth yardstick";
  const ProblemSchema schema_ = {
      {"elements", "elements of x", Value::integer(std::int64_t{1} << 28), 1, std::int64_t{1} << 34, {}},
      {"dtype", "element type", Value::named("f32", 0), 0, 0, {"f32", "bf16", "fp16"}},
      {"write",
       "all: y = a*x + b; none: one sum of it for every 1024 elements; eighth: 128 sums for every 1024 "
       "elements; eightfold: eight versions of y",
       Value::named("all", 0),
       0,
       0,
       {std::begin(kWriteNames), std::end(kWriteNames)}},
      {"passes",
       "times that a launch reads x; above 1 x stays in L2 if it fits",
       Value::integer(1),
       1,
       1024,
       {}}};
  const std::vector<Preset> presets_ = {
      {"copy",
       "reads 1 GiB and writes 1 GiB",
       {{"elements", "268435456"}, {"dtype", "f32"}, {"write", "all"}}},
      {"read", "reads 1 GiB", {{"elements", "268435456"}, {"dtype", "f32"}, {"write", "none"}}}};
};

}  // namespace

const Kernel& decode_kernel() {
  static const DecodeKernel kernel;
  return kernel;
}

}  // namespace moetune
