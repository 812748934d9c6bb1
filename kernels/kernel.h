// The host half of one tunable kernel: what a problem is, what its tensors hold, how a configuration becomes
// launches, what the right answer is, and how few bytes and FLOPs it could cost. Knows no CUDA.
//
// Adding a kernel: templates/NAME/, spaces/NAME.json, kernels/NAME.cc and one line in registry.cc.
// Implementations are stateless and immutable; the registry owns them; all calls are thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/limits.h"
#include "kernels/plan.h"
#include "kernels/problem.h"
#include "search/assignment.h"

namespace moetune {

// The least that any implementation must do.
struct Cost {
  double bytes = 0;  // device memory moved: each input read once, each output written once
  double flops = 0;
};

// When an output counts as right: both rules, over the whole tensor against the exact reference.
struct Tolerance {
  double dissimilarity = 1e-4;   // 1 - 2*sum(xy)/sum(x^2+y^2) at most this
  double baseline_factor = 2.0;  // max|x-y| at most this times the low-precision baseline's own error
  double absolute_floor = 1e-6;  // ... plus this, for outputs the baseline gets exactly right
};

// Which reference a plan computes. `exact` accumulates in fp32 or better and writes every output as f32;
// `baseline` rounds intermediates as a plain low-precision implementation would and writes the outputs in
// their types.
enum class Reference { exact, baseline };

// Input or output tensors on the host, by buffer name.
using HostTensors = std::map<std::string, std::vector<double>>;

class Kernel {
 public:
  virtual ~Kernel() = default;

  virtual const std::string& name() const = 0;
  virtual const std::string& summary() const = 0;
  virtual const ProblemSchema& schema() const = 0;
  virtual const std::vector<Preset>& presets() const = 0;
  // One sentence for who asks for a preset that does not exist and a model that is known; else "".
  virtual std::string advice_for_unknown_preset(std::string_view name) const { return ""; }

  // Rules across dimensions. Throws BadInput with the broken rule.
  virtual void check(const Problem& problem) const = 0;

  // Inputs first, then outputs; argument names in plans refer to them. Deterministic in (problem, seed).
  virtual std::vector<Buffer> buffers(const Problem& problem, std::uint64_t seed) const = 0;

  // The launches of one configuration. Deterministic; `config` is legal for the problem and limits.
  virtual Plan plan(const Config& config, const Problem& problem, const DeviceLimits& limits) const = 0;

  // The reference, a plain CUDA kernel. An `exact` plan writes each output to a buffer of the same name
  // and element count whose type is f32.
  virtual Plan reference(Reference which, const Problem& problem, const DeviceLimits& limits) const = 0;

  // The right answer in float64 on the CPU, by output name. For tests: small problems only.
  virtual HostTensors reference_on_cpu(const Problem& problem, const HostTensors& inputs) const = 0;

  virtual Cost cost(const Problem& problem) const = 0;
  virtual Tolerance tolerance(const Problem& problem) const = 0;
};

// The `problem.*` and `device.*` names that space expressions may use: every dimension, and
// compute_capability, sm_count, shared_per_block, shared_per_sm, registers_per_sm, threads_per_sm, l2_bytes.
Assignment expression_environment(const Problem& problem, const DeviceLimits& limits);

}  // namespace moetune
