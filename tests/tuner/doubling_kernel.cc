#include "tests/tuner/doubling_kernel.h"

#include <cstdlib>

#include "tests/paths.h"

namespace moetune {
namespace {

Plan doubling_plan(const std::string& entry, std::int64_t elements) {
  Plan plan;
  plan.unit.source = "templates/doubling.cu";
  Launch launch;
  launch.entry = entry;
  launch.arguments = {{"x", Pointer{"x"}}, {"y", Pointer{"y"}}, {"elements", elements}};
  plan.launches.push_back(launch);
  return plan;
}

BuildPtr fake_build() {
  auto build = std::make_shared<Build>();
  build->outcome = Outcome::ok;
  build->cubin = {'f', 'a', 'k', 'e', 0};
  return build;
}

}  // namespace

DoublingKernel::DoublingKernel(std::string exact, std::string baseline)
    : NamedKernel("doubling"), exact_(std::move(exact)), baseline_(std::move(baseline)) {}

std::vector<Buffer> DoublingKernel::buffers(const Problem& problem, const Call&, std::uint64_t) const {
  Buffer x, y;
  x.name = "x";
  x.elements = problem["elements"];
  x.rotates = true;
  x.fresh = true;
  x.fill.kind = Fill::Kind::normal;
  y.name = "y";
  y.elements = problem["elements"];
  y.role = Role::output;
  return {x, y};
}

std::unique_ptr<const Launcher> DoublingKernel::launcher(const Config& config, const Problem& problem,
                                                         const DeviceLimits&) const {
  Plan plan = doubling_plan("double", problem["elements"]);
  if (!entries.empty()) {
    const std::string& entry = entries.at(static_cast<std::size_t>(config.number("entry")));
    plan = doubling_plan(entry, problem["elements"]);
    plan.unit.defines = {{"ENTRY", entry}};
  }
  return make_launcher(plan.unit, [plan](const Extents&, const Call&, LaunchPlan& out) { out = plan; });
}

std::unique_ptr<const Launcher> UnitPerConfigKernel::launcher(const Config& config, const Problem& problem,
                                                              const DeviceLimits& limits) const {
  LaunchPlan plan;
  const auto doubling = DoublingKernel::launcher(config, problem, limits);
  doubling->plan({}, {}, plan);
  plan.launches[0].block = {128, 1, 1};
  CompileUnit unit = doubling->unit();
  unit.defines = {{"CONFIG", config.text()}};
  return make_launcher(unit, [plan](const Extents&, const Call&, LaunchPlan& out) { out = plan; });
}

Plan DoublingKernel::reference(Reference which, const Problem& problem, const Call&, const DeviceLimits&) const {
  return doubling_plan(which == Reference::exact ? exact_ : baseline_, problem["elements"]);
}

Cost DoublingKernel::cost(const Problem& problem) const {
  const double bytes = 4.0 * static_cast<double>(problem["elements"]);
  return {.read_bytes = bytes, .written_bytes = bytes};
}

Problem doubling_problem(std::int64_t elements) { return {"doubling", {{"elements", Value::integer(elements)}}}; }

Candidate doubling_candidate(const std::string& entry, std::int64_t elements) {
  return {{{"entry", Value::named(entry, 0)}}, doubling_plan(entry, elements), fake_build()};
}

void use_fake_cuda(const std::string& script) {
  setenv("MOETUNE_LIBCUDA", paths::fake_libcuda(), 1);
  setenv("MOETUNE_FAKE_CUDA", script.c_str(), 1);
}

CudaDevice fake_device() {
  CudaDevice::Options options;
  options.build = [](const std::vector<CompileUnit>& units) {
    return std::vector<BuildPtr>(units.size(), fake_build());
  };
  return CudaDevice(std::move(options));
}

OpenFake::OpenFake(const std::string& script) : device((use_fake_cuda(script), fake_device())) {
  device.open(kernel, doubling_problem(kElements), 7);
}

TrialResult OpenFake::run(const std::string& entry, const MeasurePolicy& policy) {
  return device.run(candidate(entry), policy);
}

LegalSpace space_of_entries(const DoublingKernel& kernel) {
  Parameter entry{"entry", {}, ""};
  std::vector<Position> rows;
  for (std::size_t i = 0; i < kernel.entries.size(); ++i) {
    entry.values.push_back(Value::integer(static_cast<std::int64_t>(i)));
    rows.push_back(static_cast<Position>(i));
  }
  return LegalSpace({entry}, rows);
}

CompilePool::Compile doubling_compiler() {
  const auto entry_of = [](const CompileUnit& unit) {
    return unit.defines.empty() ? std::string("double") : unit.defines.front().second;
  };
  return {entry_of, [entry_of](const CompileUnit& unit, const std::stop_token&) {
            Build build = *fake_build();
            if (entry_of(unit) == "broken") {
              build.outcome = Outcome::compile_failed;
              build.message = "line 3: no";
            }
            build.entries[entry_of(unit)] = {};
            return build;
          }};
}

}  // namespace moetune
