#include "tests/tuner/ids_kernel.h"

#include "tests/tuner/doubling_kernel.h"

namespace moetune {
namespace {

Plan one_launch(const std::string& entry, const char* from, const char* to, std::int64_t elements) {
  Plan plan;
  plan.unit.source = "templates/ids.cu";
  Launch launch;
  launch.entry = entry;
  launch.arguments = {{"from", Pointer{from}}, {"to", Pointer{to}}, {"elements", elements}};
  plan.launches.push_back(launch);
  return plan;
}

}  // namespace

IdsKernel::IdsKernel(DType type, OutputCheck check) : NamedKernel("ids"), type_(type), check_(std::move(check)) {}

std::vector<Buffer> IdsKernel::buffers(const Problem& problem, const Call&, std::uint64_t) const {
  const std::int64_t n = problem["elements"];
  Buffer from{.name = "from", .dtype = DType::i32, .elements = n};
  from.fill.kind = Fill::Kind::permutation;
  Buffer offsets{.name = "offsets", .dtype = DType::i32, .elements = 3};
  offsets.fill = {Fill::Kind::integers, 1, {4, 4, static_cast<std::int32_t>(n / 8 * 7)}, {}};
  Buffer to{.name = "to", .dtype = type_, .elements = n, .role = Role::output};
  to.check = check_;
  return {from, offsets, to};
}

Plan IdsKernel::plan_of(const std::string& bug, std::int64_t elements) const {
  const std::string type = type_ == DType::i32 ? "" : "__" + std::string(dtype_name(type_));
  return one_launch("ids" + type + bug, "from", "to", elements);
}

std::unique_ptr<const Launcher> IdsKernel::launcher(const Config&, const Problem& problem, const DeviceLimits&) const {
  const Plan plan = plan_of("", problem["elements"]);
  return make_launcher(plan.unit, [plan](const Extents&, const Call&, LaunchPlan& out) { out = plan; });
}

Plan IdsKernel::reference(Reference, const Problem& problem, const Call&, const DeviceLimits&) const {
  return plan_of("", problem["elements"]);
}

Cost IdsKernel::cost(const Problem& problem) const { return {8.0 * static_cast<double>(problem["elements"]), 0}; }

Candidate IdsKernel::candidate(const std::string& bug, std::int64_t elements) const {
  Candidate candidate = doubling_candidate("double", elements);  // for its build
  candidate.plan = plan_of(bug, elements);
  return candidate;
}

std::vector<Buffer> AccumulateKernel::buffers(const Problem& problem, const Call&, std::uint64_t) const {
  Buffer x{.name = "x", .elements = problem["elements"]};
  x.fill.kind = Fill::Kind::normal;
  Buffer sum{.name = "sum", .elements = problem["elements"], .role = Role::in_out};
  sum.fill.kind = Fill::Kind::uniform;
  return {x, sum};
}

Plan AccumulateKernel::plan_of(const std::string& bug, std::int64_t elements) const {
  return one_launch("accumulate" + bug, "x", "sum", elements);
}

}  // namespace moetune
