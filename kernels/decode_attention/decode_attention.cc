// decode_attention: the newest tokens of a sequence against its KV cache. The parts have files of their own
// (decode_attention_problem, _call, _choice, _inputs, _plan).
#include "kernels/decode_attention/call.h"
#include "kernels/decode_attention/family.h"
#include "kernels/decode_attention/inputs.h"
#include "kernels/decode_attention/plan.h"
#include "kernels/decode_attention/problem.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

class DecodeAttention final : public Kernel {
 public:
  const std::string& name() const override { return name_; }
  const std::string& summary() const override { return summary_; }
  const ProblemSchema& schema() const override { return decode_attention_schema(); }
  const std::vector<Preset>& presets() const override { return decode_attention_presets(); }
  std::string advice_for_unknown_preset(std::string_view name) const override { return decode_attention_advice(name); }
  void check(const Problem& problem) const override { check_decode_attention(problem); }

  Assignment specialization(const Problem& problem) const override { return DecodeShape(problem).specialization(); }

  const std::vector<std::string>& free_dimensions() const override {
    static const std::vector<std::string> names = {"batch", "kv_heads", "context"};
    return names;
  }
  std::vector<std::string> free_lengths() const override { return {"context"}; }

  Problem problem_of(const Assignment& specialization, const Extents& extents) const override {
    return decode_attention_problem_of(specialization, extents);
  }

  const CallSchema& call_schema() const override { return decode_attention_call_schema(); }

  Call default_call(const Problem& problem) const override { return DecodeCall(DecodeShape(problem)).call(); }

  void check_call(const Problem& problem, const Call& call) const override {
    check_decode_attention_call(DecodeShape(problem), DecodeCall(call));
  }

  std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const override {
    return decode_attention_family(DecodeShape(problem));
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override {
    return decode_attention_buffers(DecodeShape(problem), DecodeCall(call), seed);
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    return decode_attention_launcher(config, DecodeShape(problem), limits);
  }

  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits&) const override {
    return decode_attention_reference_plan(which, DecodeShape(problem), DecodeCall(call));
  }

  Cost cost(const Problem& problem) const override { return decode_attention_cost(DecodeShape(problem)); }

 private:
  const std::string name_ = "decode_attention";
  const std::string summary_ =
      "attention of a sequence's newest 1 to 4 tokens over its KV cache (GQA, paged, ragged, windows, sinks)";
};

}  // namespace

const Kernel& decode_attention() {
  static const DecodeAttention kernel;
  return kernel;
}

}  // namespace moetune
