#include "tests/simt/simt_problem.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "tests/kernels/answers/answers.h"

namespace moetune::testing {

SimtProblem::SimtProblem(const std::string& kernel_name, const std::string& text, int sm_count)
    : kernel(find_kernel(kernel_name)), problem(kernel.parse(text)), limits(limits_of_architecture("sm_90a")) {
  kernel.check(problem);
  call = kernel.default_call(problem);
  limits.sm_count = sm_count;
}

SimtTensors SimtProblem::tensors(bool exact) const {
  SimtTensors made(kernel.buffers(problem, call, seed), seed, exact);
  if (edit) edit(made);
  return made;
}

HostTensors SimtProblem::run_plan(const Plan& plan, std::uint64_t schedule, bool exact, int times) const {
  SimtDevice device(plan.unit, {.seed = schedule, .resident_blocks = resident_blocks});
  SimtTensors own = tensors(exact);
  for (int i = 0; i < times; ++i) own.run(device, plan);
  return own.outputs();
}

HostTensors SimtProblem::run(const Config& config, std::uint64_t schedule, int times) const {
  Plan plan = kernel.plan(config, problem, call, limits);
  // As where GPUs have that; and sometimes as if the launch in front had long ended.
  for (Launch& launch : plan.launches) launch.programmatic_dependent = schedule % 4 != 0;
  return run_plan(plan, schedule, false, times);
}

HostTensors SimtProblem::reference(Reference which) const {
  return run_plan(kernel.reference(which, problem, call, limits), 0, which == Reference::exact, 1);
}

HostTensors SimtProblem::on_cpu() const { return answer_on_cpu(problem, call, tensors().inputs()); }

std::vector<Config> SimtProblem::sample(std::size_t count, Rules rules,
                                        const std::function<bool(const Config&)>& wanted) const {
  const LegalSpace space = shared_space(kernel.name()).enumerate(expression_environment(problem, limits), rules);
  REQUIRE(space.size() >= count);
  std::vector<Config> chosen;
  for (std::size_t i = 1; chosen.size() < count; ++i) {
    REQUIRE(i < 100'000);
    Config config = space.config(i * 0x9E3779B97F4A7C15u % space.size());
    if (!wanted || wanted(config)) chosen.push_back(std::move(config));
  }
  return chosen;
}

Config SimtProblem::config(const std::string& base, const std::string& changes) const {
  std::string text;
  for (std::size_t at = 0; at < base.size();) {
    const std::size_t end = std::min(base.find(',', at), base.size());
    const std::string name = base.substr(at, base.find('=', at) + 1 - at);
    const std::size_t changed = ("," + changes).find("," + name);
    const std::string setting = changed == std::string::npos
                                    ? base.substr(at, end - at)
                                    : changes.substr(changed, changes.find(',', changed) - changed);
    text += (text.empty() ? "" : ",") + setting;
    at = end + 1;
  }
  return shared_space(kernel.name()).parse_config(text, nullptr);
}

std::size_t simt_sample(std::size_t default_value) {
  const char* const text = std::getenv("MOETUNE_SIMT_SAMPLE");
  return text != nullptr ? static_cast<std::size_t>(std::atoi(text)) : default_value;
}

bool is_near(double got, double right, double error) {
  if (std::isnan(right) || std::isinf(right)) return got == right || (std::isnan(got) && std::isnan(right));
  return std::abs(got - right) <= error * (1 + std::abs(right));
}

IsRight rounded_attention(const Problem& problem) {
  double rounding = problem.is("dtype", "fp16") || problem.is("dtype", "f16") ? 0x1p-9 : 0x1p-6;
  if (problem.dims.find("q_dtype") != nullptr && problem.is("q_dtype", "e4m3")) rounding = 0x1p-3;
  return [rounding](const std::string& name, double got, double right) {
    return is_near(got, right, name == "o" ? rounding : 1e-4);
  };
}

bool is_same(const std::string&, double got, double right) {
  return got == right || (std::isnan(got) && std::isnan(right));
}

void check_outputs(const HostTensors& got, const HostTensors& right, const IsRight& is_right) {
  REQUIRE(got.size() == right.size());
  for (const auto& [name, values] : right) {
    CAPTURE(name);
    const std::vector<double>& mine = got.at(name);
    REQUIRE(mine.size() == values.size());
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = values.size(); i-- > 0;) {
      if (is_right(name, mine[i], values[i])) continue;
      ++wrong;
      first = i;
    }
    CAPTURE(first);
    CAPTURE(mine[first]);
    CAPTURE(values[first]);
    CHECK(wrong == 0);
  }
}

}  // namespace moetune::testing
