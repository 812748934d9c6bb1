// softmax over the rows of a matrix: the toy kernel of docs/new_kernel.md.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/integers.h"
#include "kernels/kernel.h"

namespace moetune {
namespace {

constexpr std::uint32_t kReferenceThreads = 64;

class Softmax final : public Kernel {
 public:
  const std::string& name() const override { return name_; }
  const std::string& summary() const override { return summary_; }
  const ProblemSchema& schema() const override { return schema_; }
  const std::vector<Preset>& presets() const override { return presets_; }
  void check(const Problem&) const override {}  // the dimensions are independent

  // One cubin serves every number of rows; the constraints read the columns.
  const std::vector<std::string>& free_dimensions() const override {
    static const std::vector<std::string> names = {"rows"};
    return names;
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call&, std::uint64_t) const override {
    const std::int64_t elements = problem["rows"] * problem["columns"];
    Buffer x{.name = "x", .dtype = DType::f32, .elements = elements, .rotates = true};
    x.fill.kind = Fill::Kind::normal;
    Buffer y{.name = "y", .dtype = DType::f32, .elements = elements, .role = Role::output};
    y.check = OutputCheck::within(
        {.dissimilarity = 1e-5, .baseline_factor = 2.0, .terms = static_cast<double>(problem["columns"])});
    return {x, y};
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits&) const override {
    const std::int64_t threads = config.number("threads"), keep = config.number("keep");
    const std::int64_t columns = problem["columns"];
    CompileUnit unit{"templates/softmax/softmax.cu",
                     {{"THREADS", std::to_string(threads)},
                      {"VECTOR", config.at("vector").text()},
                      {"KEEP", std::to_string(keep)}}};
    return make_launcher(std::move(unit), [=](const Extents& extents, const Call&, LaunchPlan& plan) {
      Launch& launch = plan.launches.emplace_back();
      launch.entry = "softmax";
      launch.grid[0] = static_cast<std::uint32_t>(extents[0]);
      launch.block[0] = static_cast<std::uint32_t>(threads);
      launch.dynamic_shared = static_cast<std::uint32_t>(keep * 4 * columns);
      launch.arguments = {
          {"x", Pointer{"x"}}, {"y", Pointer{"y"}}, {"columns", static_cast<std::int32_t>(columns)}};
    });
  }

  Plan reference(Reference which, const Problem& problem, const Call&, const DeviceLimits&) const override {
    Plan plan;
    plan.unit = {"templates/softmax/reference.cu", {{"EXACT", which == Reference::exact ? "1" : "0"}}};
    Launch& launch = plan.launches.emplace_back();
    launch.entry = "softmax_reference";
    launch.grid[0] = static_cast<std::uint32_t>(ceil_div(problem["rows"], std::int64_t{kReferenceThreads}));
    launch.block[0] = kReferenceThreads;
    launch.arguments = {{"x", Pointer{"x"}},
                        {"y", Pointer{"y"}},
                        {"rows", static_cast<std::int32_t>(problem["rows"])},
                        {"columns", static_cast<std::int32_t>(problem["columns"])}};
    return plan;
  }

  HostTensors reference_on_cpu(const Problem& problem, const Call&,
                               const HostTensors& inputs) const override {
    std::vector<double> y = inputs.at("x");
    const auto columns = static_cast<std::ptrdiff_t>(problem["columns"]);
    for (auto row = y.begin(); row != y.end(); row += columns) {
      const double maximum = *std::max_element(row, row + columns);
      double sum = 0;
      for (auto value = row; value != row + columns; ++value) sum += * value = std::exp(*value - maximum);
      for (auto value = row; value != row + columns; ++value) *value /= sum;
    }
    return {{"y", y}};
  }

  Cost cost(const Problem& problem) const override {
    const auto elements = static_cast<double>(problem["rows"] * problem["columns"]);
    return {.read_bytes = 4 * elements,
            .written_bytes = 4 * elements,
            .flops = {.fp32 = 5 * elements},
            .inputs = Inputs::cold};
  }

 private:
  const std::string name_ = "softmax";
  const std::string summary_ = "softmax over the rows of a matrix of floats";
  const ProblemSchema schema_ = {
      {"rows", "rows of x", Value::integer(16384), 1, std::int64_t{1} << 20, {}},
      {"columns", "columns of x, over which the softmax is", Value::integer(4096), 1, 65536, {}}};
  const std::vector<Preset> presets_;
};

}  // namespace

const Kernel& softmax() {
  static const Softmax kernel;
  return kernel;
}

}  // namespace moetune
