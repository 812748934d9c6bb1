// prefill_attention: the new tokens of every sequence against its KV, new and cached. The parts have files of their
// own (prefill_attention_problem, _call, _family, _inputs, _plan).
#include "kernels/kernel.h"
#include "kernels/prefill_attention/call.h"
#include "kernels/prefill_attention/family.h"
#include "kernels/prefill_attention/inputs.h"
#include "kernels/prefill_attention/plan.h"
#include "kernels/prefill_attention/problem.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

class PrefillAttention final : public Kernel {
 public:
  const std::string& name() const override { return name_; }
  const std::string& summary() const override { return summary_; }
  const ProblemSchema& schema() const override { return prefill_attention_schema(); }
  const std::vector<Preset>& presets() const override { return prefill_attention_presets(); }
  void check(const Problem& problem) const override { check_prefill_attention(problem); }

  Assignment specialization(const Problem& problem) const override { return PrefillShape(problem).specialization(); }

  const std::vector<std::string>& free_dimensions() const override {
    static const std::vector<std::string> names = {"batch", "kv_heads", "seqlen_q", "seqlen_kv"};
    return names;
  }
  std::vector<std::string> free_lengths() const override { return {"seqlen_q", "seqlen_kv"}; }

  Problem problem_of(const Assignment& specialization, const Extents& extents) const override {
    return prefill_attention_problem_of(specialization, extents);
  }

  const CallSchema& call_schema() const override { return prefill_attention_call_schema(); }

  Call default_call(const Problem& problem) const override { return PrefillCall(PrefillShape(problem)).call(); }

  void check_call(const Problem& problem, const Call& call) const override {
    check_prefill_attention_call(PrefillShape(problem), PrefillCall(call));
  }

  std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const override {
    return prefill_attention_family(PrefillShape(problem));
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override {
    return prefill_attention_buffers(PrefillShape(problem), PrefillCall(call), seed);
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    return prefill_attention_launcher(config, PrefillShape(problem), limits);
  }

  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits&) const override {
    return prefill_attention_reference_plan(which, PrefillShape(problem), PrefillCall(call));
  }

  Cost cost(const Problem& problem) const override { return prefill_attention_cost(PrefillShape(problem)); }

 private:
  const std::string name_ = "prefill_attention";
  const std::string summary_ =
      "attention of new tokens over their sequences' KV (causal, GQA, chunked, paged, ragged, windows, sinks)";
};

}  // namespace

const Kernel& prefill_attention() {
  static const PrefillAttention kernel;
  return kernel;
}

}  // namespace moetune
