// The router: from logits to ids and weights of the experts of each token, and to the permutation that brings the
// tokens of one expert together (docs/router.md).
#include <algorithm>

#include "kernels/moe/router_family.h"
#include "kernels/moe/router_plan.h"
#include "kernels/moe/routing_kernel.h"

namespace moetune {
namespace {

// A weight is a ratio of exponentials. That of a logit near 16 is off by as much as a sum of 256 terms.
constexpr double kExponential = 256;

class Router final : public RoutingKernel {
 public:
  Router()
      : RoutingKernel(
            "router",
            "top-k experts of each token with their weights, and the permutation that groups tokens by expert") {}

  const ProblemSchema& schema() const override { return router_schema(); }
  const std::vector<Preset>& presets() const override { return router_presets(); }
  void check(const Problem& problem) const override { check_router(problem); }

  const CallSchema& call_schema() const override {
    static const CallSchema schema = {
        .integers = {{"logits_row", "elements from a token's logits to the next token's"}},
        .reals = {{"scale", "factor of all weights"}}};
    return schema;
  }

  Call default_call(const Problem& problem) const override {
    Call call;
    call.integers[kLogitsRow] = problem["experts"];
    call.reals[kRouterScale] = 1;
    return call;
  }

  void check_call(const Problem& problem, const Call& call) const override {
    check_router_call(RouterShape(problem), call);
  }

  std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const override {
    return router_family(RouterShape(problem));
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t) const override {
    const RouterShape shape(problem);
    const std::int64_t row = call.integers[kLogitsRow];
    Buffer logits{.name = "logits", .dtype = shape.dtype, .elements = (shape.tokens - 1) * row + shape.experts};
    logits.fresh = true;
    logits.fill = {.kind = Fill::Kind::columns, .shifts = shape.load_shifts()};
    logits.fill.shifts.resize(static_cast<std::size_t>(row));
    std::vector<Buffer> buffers = {std::move(logits)};
    if (shape.bias) {
      buffers.push_back({.name = "bias", .elements = shape.experts});
      buffers.back().fill = {.kind = Fill::Kind::normal, .scale = 0.1f};
    }
    const auto add_list = [&](const char* name, std::vector<std::int32_t> list) {
      buffers.push_back({.name = name, .dtype = DType::i32, .elements = std::ssize(list)});
      buffers.back().fill = {.kind = Fill::Kind::integers, .integers = std::move(list)};
    };
    if (shape.mapped) add_list("expert_map", shape.sample_map());
    if (shape.counted) add_list("token_count", {static_cast<std::int32_t>(shape.sample_count())});
    const auto add = [&](const char* name, DType type, std::int64_t elements, OutputCheck check) {
      buffers.push_back({.name = name, .dtype = type, .elements = elements, .role = Role::output});
      buffers.back().check = std::move(check);
    };
    const auto add_integers = [&](const char* name, std::int64_t elements, DType type = DType::i32) {
      add(name, type, elements, OutputCheck::exact());
    };
    add_integers("ids", shape.slots(), shape.ids);
    add("weights", DType::f32, shape.slots(),
        OutputCheck::within({.dissimilarity = 1e-9, .terms = kExponential + static_cast<double>(shape.experts)}));
    if (shape.has_plan() || shape.has_ranks()) add_integers("counts", shape.experts);
    if (shape.has_ranks()) {
      add_integers("tokens_per_rank", shape.ranks);
      add_integers("in_rank", shape.tokens * shape.ranks, DType::u8);
    }
    if (!shape.has_plan()) return buffers;
    if (shape.segment == 0) add_integers("offsets", shape.experts + 1);
    add_integers("sorted", shape.places());
    add_integers("inverse", shape.slots());
    if (shape.grouping() != nullptr) add_integers(shape.grouping(), shape.grouping_elements());
    if (shape.dropped) add_integers("dropped", shape.slots(), DType::u8);
    return buffers;
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    return router_launcher(config, RouterShape(problem), limits);
  }

  Plan reference(Reference, const Problem& problem, const Call& call, const DeviceLimits&) const override {
    return router_reference_plan(RouterShape(problem), call);
  }

  Cost cost(const Problem& problem) const override {
    Cost cost{.inputs = Inputs::warm};
    const Call call = default_call(problem);
    for (const Buffer& buffer : buffers(problem, call, 0))
      (buffer.is_written() ? cost.written_bytes : cost.read_bytes) += static_cast<double>(buffer.bytes());
    const RouterShape shape(problem);
    // A score is some ten operations, and each round of the selection looks at all of them.
    cost.flops.fp32 = static_cast<double>(shape.tokens * shape.experts * (10 + shape.top_k));
    return cost;
  }
};

}  // namespace

const Kernel& router() {
  static const Router kernel;
  return kernel;
}

}  // namespace moetune
