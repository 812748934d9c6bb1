#include "kernels/model_workloads.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

std::string with(const std::string& name, std::int64_t value) { return name + "=" + std::to_string(value); }

std::string attention_problem(const AttentionLayers& layers, const ModelFacts& model, const ServingShape& serving) {
  std::string text = with("q_heads", layers.q_heads) + "," + with("kv_heads", layers.kv_heads) + "," +
                     with("head_dim", layers.head_dim) + "," + with("page", serving.page) + ",dtype=" + model.dtype;
  if (layers.window > 0) text += "," + with("window", layers.window);
  if (layers.sinks) text += ",sinks=learned";
  if (layers.softcap > 0) text += "," + with("softcap", layers.softcap);
  return text;
}

// "" if the kernel takes the problem at the low end of all ranges, else why not.
std::string why_refused(const ModelWorkload& workload) {
  const Kernel& kernel = find_kernel(workload.kernel);
  std::string text = workload.problem;
  for (const DimensionRange& range : workload.ranges) text += (text.empty() ? "" : ",") + with(range.name, range.first);
  try {
    kernel.check(kernel.parse(text));
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

// A list with such a range is one that nobody can read.
void check_ranges(const ModelWorkload& workload) {
  const Kernel& kernel = find_kernel(workload.kernel);
  for (const DimensionRange& range : workload.ranges) try {
      check_range(kernel.name(), kernel.schema(), range.name, range.first, range.last);
    } catch (const BadInput& error) {
      const bool is_batch = range.name == "batch" || range.name == "tokens";
      throw BadField(is_batch ? "batch" : "context", error.what());
    }
}

// Chosen tokens are gathered from rows of 656 bytes, as servers keep them: e4m3 with scales of groups.
void add_latent(ModelPlan& plan, const AttentionLayers& layers, const ModelFacts& model, const ServingShape& serving) {
  ModelWorkload wanted{.name = model.name + " decode",
                       .kernel = "mla_decode",
                       .problem = with("heads", layers.q_heads) + "," + with("page", serving.page) +
                                  (model.dtype == "fp16" ? ",dtype=f16" : ",dtype=" + model.dtype),
                       .ranges = {{"batch", serving.batch_low, serving.batch_high}},
                       .weight = static_cast<double>(layers.layers)};
  if (layers.chosen > 0) {
    wanted.problem += ",tokens=chosen," + with("context", layers.chosen) + ",kv_dtype=e4m3,kv_scale=group";
  } else {
    if (model.dtype == "fp16") wanted.problem += ",kv_dtype=f16";
    wanted.ranges.push_back({"context", serving.context_low, serving.context_high});
  }
  add_workload(plan, std::move(wanted), layers.layers);
}

void add_attention(ModelPlan& plan, const ModelFacts& model, const ServingShape& serving) {
  const DimensionRange batch{"batch", serving.batch_low, serving.batch_high};
  for (const AttentionLayers& whole : model.attention) {
    const AttentionLayers layers = heads_of_rank(whole, serving.tensor_parallel);
    if (layers.latent) {
      add_latent(plan, layers, model, serving);
      continue;
    }
    const std::string kind = layers.window > 0 ? " window" : layers.chunk > 0 ? " chunk" : "";
    const std::int64_t longest = layers.chunk > 0 ? std::min(serving.context_high, layers.chunk) : serving.context_high;
    const std::int64_t shortest = std::min(serving.context_low, longest);
    const std::int64_t prompt = std::min(longest, kMostPrefillTokens);
    const std::string problem = attention_problem(layers, model, serving);
    const auto weight = static_cast<double>(layers.layers);
    add_workload(plan,
                 {.name = model.name + " decode" + kind,
                  .kernel = "decode_attention",
                  .problem = problem,
                  .ranges = {batch, {"context", shortest, longest}},
                  .weight = weight},
                 layers.layers);
    // A prompt runs once for many steps of decoding.
    add_workload(plan,
                 {.name = model.name + " prefill" + kind,
                  .kernel = "prefill_attention",
                  .problem = "batch=1," + problem,
                  .ranges = {{"seqlen_kv", shortest, longest}, {"seqlen_q", std::min(shortest, prompt), prompt}},
                  .weight = weight / 4},
                 layers.layers);
  }
}

std::string router_problem(const ExpertLayers& experts, std::int64_t ranks) {
  std::string text = with("experts", experts.experts + experts.zero_experts) + "," + with("top_k", experts.top_k) +
                     ",score=" + experts.score + ",dtype=" + experts.logits;
  if (experts.correction_bias) text += ",bias=correction";
  if (experts.groups > 1) text += "," + with("groups", experts.groups) + "," + with("groups_kept", experts.groups_kept);
  if (!experts.renormalize) text += ",renormalize=no";
  if (ranks > 1) text += ",outputs=ranks," + with("ranks", ranks) + ",ids=i64";
  return text;
}

// Notes the ways in which the experts' workloads differ from the model.
void note_experts(ModelPlan& plan, const ExpertLayers& experts, std::int64_t ranks) {
  const auto note = [&](std::string sentence) { plan.notes.push_back(std::move(sentence)); };
  if (experts.score.empty())
    note("router: " +
         (experts.why_unscored.empty() ? "how this model scores its experts is not known" : experts.why_unscored));
  if (experts.unrouted_layers > 0)
    note("router: the tokens of " + std::to_string(experts.unrouted_layers) +
         " layers choose experts by their ids, which needs no router");
  if (!experts.why_sent_plain.empty())
    note("moe_dispatch sends bf16, because of the quantization: " + experts.why_sent_plain);
  if (experts.zero_experts > 0)
    note("moe_dispatch and moe_combine move fewer rows than their workloads: " + std::to_string(experts.zero_experts) +
         " more experts give a token back as it is");
  if (experts.intermediate == 0) note("moe_experts: " + experts.why_no_products);
  if (ranks <= 1) return;
  require_divided_experts(experts, ranks);
  note("moe_dispatch and moe_combine are those of all experts, and moe_experts is left out: how many rows one of " +
       std::to_string(ranks) + " GPUs gets depends on how tokens are exchanged");
}

void add_experts(ModelPlan& plan, const ModelFacts& model, const ServingShape& serving) {
  const ExpertLayers& experts = model.experts;
  if (experts.layers == 0) return;
  note_experts(plan, experts, serving.expert_parallel);
  const DimensionRange tokens{"tokens", serving.batch_low, std::max(serving.batch_high, kMostPrefillTokens)};
  const auto entry = [&](const char* kernel, std::string problem, std::int64_t layers) {
    add_workload(plan,
                 {.name = model.name + " " + kernel,
                  .kernel = kernel,
                  .problem = std::move(problem),
                  .ranges = {tokens},
                  .weight = static_cast<double>(layers)},
                 layers);
  };
  if (!experts.score.empty() && experts.layers > experts.unrouted_layers)
    entry("router", router_problem(experts, serving.expert_parallel), experts.layers - experts.unrouted_layers);
  if (model.dtype == "fp16")
    plan.notes.push_back("moe_dispatch and moe_combine have no fp16: their workloads are the bf16 ones");
  const std::string moved =
      with("hidden", experts.hidden) + "," + with("experts", experts.experts) + "," + with("top_k", experts.top_k);
  entry("moe_dispatch", moved + (experts.sent_scale.empty() ? "" : ",out=e4m3,scale=" + experts.sent_scale),
        experts.layers);
  entry("moe_combine", moved, experts.layers);
  if (experts.intermediate == 0 || serving.expert_parallel > 1) return;
  const std::int64_t ranks = serving.tensor_parallel;
  if (experts.intermediate % ranks != 0)
    plan.notes.push_back("moe_experts: " + std::to_string(ranks) + " GPUs do not divide an expert's " +
                         std::to_string(experts.intermediate) + " values");
  else
    entry("moe_experts",
          moved + "," + with("intermediate", experts.intermediate / ranks) + ",dtype=" + model.dtype +
              experts.product_options,
          experts.layers);
}

}  // namespace

bool add_workload(ModelPlan& plan, ModelWorkload workload, std::int64_t layers) {
  check_ranges(workload);
  if (const std::string why = why_refused(workload); !why.empty()) {
    plan.notes.push_back(workload.name + " of " + std::to_string(layers) + " layers cannot be served: " + why);
    return false;
  }
  plan.workloads.push_back(std::move(workload));
  return true;
}

// Heads that one GPU holds.
AttentionLayers heads_of_rank(AttentionLayers layers, std::int64_t ranks) {
  if (layers.q_heads % ranks != 0 ||
      (layers.kv_heads % ranks != 0 && ranks % std::max<std::int64_t>(1, layers.kv_heads) != 0)) {
    throw BadField("tp", "tensor parallel " + std::to_string(ranks) + " does not divide " +
                             std::to_string(layers.q_heads) + " query heads and " + std::to_string(layers.kv_heads) +
                             " KV heads");
  }
  layers.q_heads /= ranks;
  layers.kv_heads = std::max<std::int64_t>(1, layers.kv_heads / ranks);
  return layers;
}

void require_divided_experts(const ExpertLayers& experts, std::int64_t ranks) {
  if (experts.experts % ranks == 0) return;
  throw BadField("ep", "expert parallel " + std::to_string(ranks) + " does not divide " +
                           std::to_string(experts.experts) + " experts");
}

ServingShape within_model(const ModelFacts& model, ServingShape serving, ModelPlan& plan) {
  if (model.longest_context == 0 || serving.context_high <= model.longest_context) return serving;
  serving.context_high = model.longest_context;
  serving.context_low = std::min(serving.context_low, serving.context_high);
  plan.notes.push_back("contexts end at " + std::to_string(model.longest_context) +
                       ", the longest that the model was made for");
  return serving;
}

ModelPlan plan_model(const ModelFacts& model, const ServingShape& wanted) {
  ModelPlan plan;
  const ServingShape serving = within_model(model, wanted, plan);
  add_attention(plan, model, serving);
  add_experts(plan, model, serving);
  return plan;
}

}  // namespace moetune
