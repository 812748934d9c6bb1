// The host half of one tunable kernel: what a problem is, what its tensors hold, how a configuration becomes
// launches, what the right answer is, and how few bytes and FLOPs it could cost. Knows no CUDA.
//
// A problem has two kinds of dimensions that matter to code: its *specialization* is compiled into a cubin,
// its *free dimensions* are passed at launch. All problems of one specialization are a family, and a cubin
// built for one of them runs them all. A Call holds what belongs to the caller.
//
// Adding a kernel: templates/NAME/, spaces/NAME.json, kernels/NAME.cc and one line in registry.cc.
// Implementations are stateless and immutable; the registry owns them; all calls are thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/call.h"
#include "kernels/cost.h"
#include "kernels/family_interface.h"
#include "kernels/limits.h"
#include "kernels/plan.h"
#include "kernels/problem.h"
#include "kernels/shown_call.h"
#include "search/assignment.h"

namespace moetune {

// The reference that a plan computes. `exact` accumulates in fp32 or better and writes floating-point outputs as f32,
// integers in their own type (exact_dtype). `baseline` rounds intermediates as a plain low-precision implementation
// would and writes the outputs in their types; its integers are right as well.
enum class Reference { exact, baseline };

// Input or output tensors on the host, by buffer name.
using HostTensors = std::map<std::string, std::vector<double>>;

// One configuration of one family on one device, with all names looked up: turns extents and a call into
// launches. Immutable; thread-safe.
class Launcher {
 public:
  virtual ~Launcher() = default;

  virtual const CompileUnit& unit() const = 0;

  // The extents that plan() reads, with 1 in place of the others: equal ones make equal launches. A server's
  // contexts grow by one at every step, and most launches do not depend on them.
  virtual Extents plan_extents(const Extents& extents) const { return extents; }

  // Fills `plan` with the launches of one call. Allocates nothing. The call must have passed check_call() for
  // a problem of these extents; nothing is checked again.
  virtual void plan(const Extents& extents, const Call& call, LaunchPlan& plan) const = 0;
};

// A launcher whose plan() is `fill`, which keeps to plan()'s contract.
using FillPlan = std::function<void(const Extents& extents, const Call& call, LaunchPlan& plan)>;
std::unique_ptr<const Launcher> make_launcher(CompileUnit unit, FillPlan fill);

class Kernel {
 public:
  virtual ~Kernel() = default;

  virtual const std::string& name() const = 0;
  virtual const std::string& summary() const = 0;
  virtual const ProblemSchema& schema() const = 0;
  virtual const std::vector<Preset>& presets() const = 0;
  // One sentence for who asks for a preset that does not exist and a model that is known; else "".
  virtual std::string advice_for_unknown_preset(std::string_view name) const { return ""; }

  // The problem that the text and the preset name (parse_problem); rules across dimensions are check()'s.
  Problem parse(std::string_view text, const Preset* preset = nullptr) const;

  // Rules across dimensions. Throws BadInput with the broken rule.
  virtual void check(const Problem& problem) const = 0;

  // The dimensions that a cubin of the problem has compiled in; their text names the family. No other dimension may
  // change the source that a configuration compiles to. By default every dimension that is not free.
  virtual Assignment specialization(const Problem& problem) const;
  // The dimensions that a launch may choose, in the order of Extents. Dimensions that are neither these nor
  // compiled in describe how test inputs are made (how lengths are distributed, how tensors are laid out).
  virtual const std::vector<std::string>& free_dimensions() const;
  // Those of them that are lengths of sequences in tokens.
  virtual std::vector<std::string> free_lengths() const { return {}; }
  // The problem of a family at `extents`; other dimensions have their defaults. Throws BadInput for values
  // that no problem has.
  virtual Problem problem_of(const Assignment& specialization, const Extents& extents) const;
  Extents extents_of(const Problem& problem) const;

  // By default a call has no fields.
  virtual const CallSchema& call_schema() const;
  // The call of a caller who states none: contiguous tensors, laid out as the problem says.
  virtual Call default_call(const Problem& problem) const;
  // Throws BadInput if a kernel could not run this call: strides that overlap or are unaligned, too little
  // room.
  virtual void check_call(const Problem& problem, const Call& call) const;

  // The family as its callers in a server see it.
  virtual std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const = 0;

  // The call that a caller's tensors show, by slot, null for those that it lacks; what is written may be missing.
  // `facts` are `name=value` pairs of dimensions that no tensor shows. Without tensors only the slots' names and roles.
  // Throws BadInput that begins with the kernel's name; by default always.
  virtual ShownCall shown_call(std::span<const TensorView* const> tensors, std::string_view facts) const;

  // Inputs first, then what is written, each with the check by which it is judged; argument names in plans
  // refer to them. Deterministic in its arguments; check_buffers accepts them.
  virtual std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const = 0;
  std::vector<Buffer> buffers(const Problem& problem, std::uint64_t seed) const;  // of the default call

  // How one configuration launches every problem of a family, of which `problem` is any. Deterministic;
  // `config` is legal for the problem and limits.
  virtual std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                                   const DeviceLimits& limits) const = 0;

  // The launches of one configuration for one problem and call.
  Plan plan(const Config& config, const Problem& problem, const Call& call, const DeviceLimits& limits) const;
  Plan plan(const Config& config, const Problem& problem, const DeviceLimits& limits) const;  // default call

  // The reference, a plain CUDA kernel. An `exact` plan writes each output to a buffer of the same name and
  // element count whose type is exact_dtype of the output's; an in_out buffer holds its fill there, in that
  // type.
  virtual Plan reference(Reference which, const Problem& problem, const Call& call,
                         const DeviceLimits& limits) const = 0;
  Plan reference(Reference which, const Problem& problem, const DeviceLimits& limits) const;  // default call

  // Whether the baseline computes its outputs, so that its time means something.
  virtual bool reference_computes() const { return true; }

  virtual Cost cost(const Problem& problem) const = 0;
};

// The `problem.*` and `device.*` names that space expressions may use: every dimension, and
// compute_capability, sm_count, shared_per_block, shared_per_sm, registers_per_sm, threads_per_sm, l2_bytes.
Assignment expression_environment(const Problem& problem, const DeviceLimits& limits);

}  // namespace moetune
