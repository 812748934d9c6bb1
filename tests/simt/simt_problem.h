// A problem of a kernel on the CPU: what its reference and its configurations write, to compare with each other.
//
// Plain data. Not thread-safe. Problems are small: the answer in float64 is computed too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "search/space.h"
#include "tests/simt/simt_tensors.h"

namespace moetune::testing {

struct SimtProblem {
  // On an sm_90a of `sm_count` SMs: a few, so that blocks have several pieces of work. Throws BadInput.
  SimtProblem(const std::string& kernel, const std::string& problem, int sm_count);

  // Freshly filled, then `edit`ed. `exact` as in SimtTensors.
  SimtTensors tensors(bool exact = false) const;

  // What the last of `times` runs over the same scratch writes. `schedule` is the seed of SimtOptions.
  HostTensors run(const Config& config, std::uint64_t schedule, int times = 1) const;
  HostTensors reference(Reference which) const;
  // In float64, of the problem's own inputs: `edit` does not reach them.
  HostTensors on_cpu() const;

  // `base`, "name=value,...", but for the settings that `changes` has.
  Config config(const std::string& base, const std::string& changes) const;
  // Spread over the configurations that hold to `rules`, and to `wanted` if it is given.
  std::vector<Config> sample(std::size_t count, Rules rules,
                             const std::function<bool(const Config&)>& wanted = {}) const;

  const Kernel& kernel;
  Problem problem;
  Call call;
  DeviceLimits limits;
  std::uint64_t seed = 11;                   // of the inputs
  std::uint32_t resident_blocks = 0;         // as of SimtOptions
  std::function<void(SimtTensors&)> edit{};  // changes inputs, if any

 private:
  HostTensors run_plan(const Plan& plan, std::uint64_t schedule, bool exact, int times) const;
};

// Configurations to try a problem: MOETUNE_SIMT_SAMPLE, for more than CI has time for, or `default_value`.
std::size_t simt_sample(std::size_t default_value);

// Whether a value of the named output is right.
using IsRight = std::function<bool(const std::string& output, double got, double right)>;
// Off by at most `error`, relative to the value if that is more than 1; the same infinity, or NaN both.
bool is_near(double got, double right, double error);
// Outputs of attention: `o` as its type rounds it, or probabilities in e4m3 where queries are; the others nearly exact.
IsRight rounded_attention(const Problem& problem);
// The same value, or NaN both.
bool is_same(const std::string& output, double got, double right);

// Every value of every output. Checks with doctest, and names the first that is wrong.
void check_outputs(const HostTensors& got, const HostTensors& right, const IsRight& is_right = is_same);

}  // namespace moetune::testing
