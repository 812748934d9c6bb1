#include "kernels/kernel.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace moetune {
namespace {

class FunctionLauncher final : public Launcher {
 public:
  FunctionLauncher(CompileUnit unit, FillPlan fill) : unit_(std::move(unit)), fill_(std::move(fill)) {}

  const CompileUnit& unit() const override { return unit_; }
  void plan(const Extents& extents, const Call& call, LaunchPlan& plan) const override { fill_(extents, call, plan); }

 private:
  CompileUnit unit_;
  FillPlan fill_;
};

}  // namespace

std::unique_ptr<const Launcher> make_launcher(CompileUnit unit, FillPlan fill) {
  return std::make_unique<FunctionLauncher>(std::move(unit), std::move(fill));
}

Assignment Kernel::specialization(const Problem& problem) const {
  const std::vector<std::string>& free = free_dimensions();
  Assignment compiled;
  for (const auto& [name, value] : problem.dims) {
    if (std::find(free.begin(), free.end(), name) == free.end()) compiled.set(name, value);
  }
  return compiled;
}

const std::vector<std::string>& Kernel::free_dimensions() const {
  static const std::vector<std::string> none;
  return none;
}

Problem Kernel::problem_of(const Assignment& specialization, const Extents& extents) const {
  std::string text = specialization.text();
  const std::vector<std::string>& free = free_dimensions();
  if (extents.size() != free.size()) {
    throw BadInput(name() + ": " + std::to_string(free.size()) + " free dimensions need as many values, not " +
                   std::to_string(extents.size()));
  }
  for (std::size_t i = 0; i < free.size(); ++i) {
    text += (text.empty() ? "" : ",") + free[i] + "=" + std::to_string(extents[i]);
  }
  Problem problem = parse(text);
  check(problem);
  return problem;
}

Problem Kernel::parse(std::string_view text, const Preset* preset) const {
  return parse_problem(name(), schema(), preset, text);
}

const CallSchema& Kernel::call_schema() const {
  static const CallSchema none;
  return none;
}

Call Kernel::default_call(const Problem&) const { return {}; }

void Kernel::check_call(const Problem&, const Call&) const {}

ShownCall Kernel::shown_call(std::span<const TensorView* const>, std::string_view) const {
  throw BadInput(name() + ": no kernel.json describes it; it has operators of its own");
}

std::vector<Buffer> Kernel::buffers(const Problem& problem, std::uint64_t seed) const {
  return buffers(problem, default_call(problem), seed);
}

Plan Kernel::plan(const Config& config, const Problem& problem, const DeviceLimits& limits) const {
  return plan(config, problem, default_call(problem), limits);
}

Extents Kernel::extents_of(const Problem& problem) const {
  Extents extents;
  for (const std::string& name : free_dimensions()) extents.push_back(problem[name]);
  return extents;
}

Plan Kernel::plan(const Config& config, const Problem& problem, const Call& call, const DeviceLimits& limits) const {
  const std::unique_ptr<const Launcher> made = launcher(config, problem, limits);
  Plan plan;
  plan.unit = made->unit();
  made->plan(extents_of(problem), call, plan);
  return plan;
}

Plan Kernel::reference(Reference which, const Problem& problem, const DeviceLimits& limits) const {
  return reference(which, problem, default_call(problem), limits);
}

Assignment expression_environment(const Problem& problem, const DeviceLimits& limits) {
  Assignment environment;
  for (const auto& [name, value] : problem.dims) environment.set("problem." + name, value);
  const std::pair<const char*, std::int64_t> device[] = {
      {"device.compute_capability", limits.compute_capability},
      {"device.sm_count", limits.sm_count},
      {"device.shared_per_block", limits.shared_per_block},
      {"device.shared_per_sm", limits.shared_per_sm},
      {"device.registers_per_sm", limits.registers_per_sm},
      {"device.threads_per_sm", limits.threads_per_sm},
      {"device.l2_bytes", limits.l2_bytes},
  };
  for (const auto& [name, value] : device) environment.set(name, Value::integer(value));
  return environment;
}

}  // namespace moetune
