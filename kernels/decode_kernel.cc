// decode_kernel: y = a*x + b, the smallest tunable kernel, and the yardstick of memory bandwidth: with
// write=all it reads and writes, with write=none it only reads (and writes one sum of a*x + b for every 1024
// elements).
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

// The problem by name.
struct Shape {
  explicit Shape(const Problem& problem)
      : elements(problem["elements"]),
        writes_all(problem.is("write", "all")),
        dtype(problem.is("dtype", "f32")    ? DType::f32
              : problem.is("dtype", "bf16") ? DType::bf16
                                            : DType::f16) {}

  Shape at(const Extents& extents) const {
    Shape other = *this;
    other.elements = extents[0];
    return other;
  }

  std::int64_t chunks() const { return ceil_div(elements, kChunk); }
  std::string output() const { return writes_all ? "y" : "sums"; }
  std::string element_type() const {
    return dtype == DType::f32 ? "F32" : dtype == DType::bf16 ? "Bf16" : "Fp16";
  }

  std::int64_t elements;
  bool writes_all;
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
           {"WRITE_ALL", flag(shape.writes_all)},
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
    Buffer x{.name = "x", .dtype = shape.dtype, .elements = shape.elements, .rotates = true};
    x.fill.kind = Fill::Kind::normal;
    Buffer out{
        .name = shape.output(), .dtype = shape.dtype, .elements = shape.elements, .role = Role::output};
    if (!shape.writes_all) {
      out.dtype = DType::f32;
      out.elements = shape.chunks();
    }
    // Rounding y to bf16 alone gives a dissimilarity near 1e-6. A sum of 1024 elements is near 256, where
    // neighbouring floats are 3e-5 apart, and its terms may be added in any order.
    out.check = OutputCheck::within(
        {.dissimilarity = 1e-5, .baseline_factor = 2.0, .absolute_floor = shape.writes_all ? 1e-6 : 1e-3});
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
      const std::int64_t tiles = shape.elements * dtype_bytes(shape.dtype) / tile_bytes;
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
                  {"WRITE_ALL", shape.writes_all ? "1" : "0"},
                  {"EXACT", which == Reference::exact ? "1" : "0"}}};
    Launch& launch = plan.launches.emplace_back();
    launch.entry = "decode_kernel_reference";
    const std::int64_t blocks =
        ceil_div(shape.writes_all ? shape.elements : shape.chunks(), kReferenceThreads);
    launch.grid[0] = static_cast<std::uint32_t>(std::min<std::int64_t>(blocks, 65536));
    launch.block[0] = kReferenceThreads;
    add_arguments(launch, shape);
    return plan;
  }

  HostTensors reference_on_cpu(const Problem& problem, const Call&,
                               const HostTensors& inputs) const override {
    const Shape shape(problem);
    const std::vector<double>& x = inputs.at("x");
    std::vector<double> y(x.size()), sums(static_cast<std::size_t>(shape.chunks()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = double{kA} * x[i] + double{kB};
      sums[i / kChunk] += y[i];
    }
    return {{shape.output(), shape.writes_all ? y : sums}};
  }

  Cost cost(const Problem& problem) const override {
    const Shape shape(problem);
    const double read = static_cast<double>(shape.elements * dtype_bytes(shape.dtype));
    const double written = shape.writes_all ? read : static_cast<double>(4 * shape.chunks());
    return {read + written, (shape.writes_all ? 2.0 : 3.0) * static_cast<double>(shape.elements)};
  }

 private:
  const std::string name_ = "decode_kernel";
  const std::string summary_ =
      "y = a*x + b staged through shared memory: the tutorial and the bandwidth yardstick";
  const ProblemSchema schema_ = {
      {"elements", "elements of x", Value::integer(std::int64_t{1} << 28), 1, std::int64_t{1} << 34, {}},
      {"dtype", "element type", Value::named("f32", 0), 0, 0, {"f32", "bf16", "fp16"}},
      {"write",
       "all: y = a*x + b; none: one sum of it for every 1024 elements",
       Value::named("all", 0),
       0,
       0,
       {"all", "none"}}};
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
