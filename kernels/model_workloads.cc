#include "kernels/model_workloads.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

constexpr std::int64_t kMostPrefillTokens = 16384;  // new tokens of one sequence; servers cut longer prompts

std::string with(const std::string& name, std::int64_t value) { return name + "=" + std::to_string(value); }

// Heads that one GPU holds.
AttentionLayers sharded(AttentionLayers layers, std::int64_t ranks) {
  if (layers.q_heads % ranks != 0 ||
      (layers.kv_heads % ranks != 0 && ranks % std::max<std::int64_t>(1, layers.kv_heads) != 0)) {
    throw BadInput("tensor parallel " + std::to_string(ranks) + " does not divide " +
                   std::to_string(layers.q_heads) + " query heads and " + std::to_string(layers.kv_heads) +
                   " KV heads");
  }
  layers.q_heads /= ranks;
  layers.kv_heads = std::max<std::int64_t>(1, layers.kv_heads / ranks);
  return layers;
}

std::string attention_problem(const AttentionLayers& layers, const ModelFacts& model,
                              const ServingShape& serving) {
  std::string text = with("q_heads", layers.q_heads) + "," + with("kv_heads", layers.kv_heads) + "," +
                     with("head_dim", layers.head_dim) + "," + with("page", serving.page) +
                     ",dtype=" + model.dtype;
  if (layers.window > 0) text += "," + with("window", layers.window);
  if (layers.sinks) text += ",sinks=learned";
  return text;
}

// "" if the kernel takes the problem at the low end of all ranges, else why not.
std::string why_refused(const ModelWorkload& workload) {
  const Kernel& kernel = find_kernel(workload.kernel);
  std::string text = workload.problem;
  for (const DimensionRange& range : workload.ranges)
    text += (text.empty() ? "" : ",") + with(range.name, range.first);
  try {
    kernel.check(parse_problem(kernel.name(), kernel.schema(), nullptr, text));
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

void add(ModelPlan& plan, ModelWorkload workload) {
  check_ranges(workload);
  if (const std::string why = why_refused(workload); !why.empty()) {
    plan.notes.push_back(workload.name + " cannot be served: " + why);
    return;
  }
  plan.workloads.push_back(std::move(workload));
}

void add_attention(ModelPlan& plan, const ModelFacts& model, const ServingShape& serving) {
  const DimensionRange batch{"batch", serving.batch_low, serving.batch_high};
  const std::int64_t prompt = std::min(serving.context_high, kMostPrefillTokens);
  for (const AttentionLayers& whole : model.attention) {
    const AttentionLayers layers = sharded(whole, serving.tensor_parallel);
    const std::string kind = layers.window > 0 ? " window" : "";
    const std::string problem = attention_problem(layers, model, serving);
    const auto weight = static_cast<double>(layers.layers);
    add(plan, {.name = model.name + " decode" + kind,
               .kernel = "decode_attention",
               .problem = problem,
               .ranges = {batch, {"context", serving.context_low, serving.context_high}},
               .weight = weight});
    // A prompt runs once for many steps of decoding.
    add(plan, {.name = model.name + " prefill" + kind,
               .kernel = "prefill_attention",
               .problem = "batch=1," + problem,
               .ranges = {{"seqlen_kv", serving.context_low, serving.context_high},
                          {"seqlen_q", std::min(serving.context_low, prompt), prompt}},
               .weight = weight / 4});
  }
}

std::string router_problem(const ExpertLayers& experts) {
  std::string text = with("experts", experts.experts) + "," + with("top_k", experts.top_k) +
                     ",score=" + experts.score + ",dtype=" + experts.logits;
  if (experts.correction_bias) text += ",bias=correction";
  if (experts.groups > 1)
    text += "," + with("groups", experts.groups) + "," + with("groups_kept", experts.groups_kept);
  if (!experts.renormalize) text += ",renormalize=no";
  return text;
}

void add_experts(ModelPlan& plan, const ModelFacts& model, const ServingShape& serving) {
  const ExpertLayers& experts = model.experts;
  if (experts.layers == 0) return;
  const DimensionRange tokens{"tokens", serving.batch_low, std::max(serving.batch_high, kMostPrefillTokens)};
  const auto weight = static_cast<double>(experts.layers);
  const auto entry = [&](const char* kernel, std::string problem) {
    add(plan, {.name = model.name + " " + kernel,
               .kernel = kernel,
               .problem = std::move(problem),
               .ranges = {tokens},
               .weight = weight});
  };
  if (experts.score.empty()) {
    plan.notes.push_back("router: how this model scores its experts is not known; add its workload by hand");
  } else {
    entry("router", router_problem(experts));
  }
  if (model.dtype == "fp16")
    plan.notes.push_back("moe_dispatch and moe_combine have no fp16: their workloads are the bf16 ones");
  const std::string moved = with("hidden", experts.hidden) + "," + with("experts", experts.experts) + "," +
                            with("top_k", experts.top_k);
  entry("moe_dispatch", moved + (experts.e4m3_blocks ? ",out=e4m3,scale=group" : ""));
  entry("moe_combine", moved);
}

}  // namespace

ModelPlan plan_model(const ModelFacts& model, const ServingShape& wanted) {
  ModelPlan plan;
  ServingShape serving = wanted;
  if (model.longest_context > 0 && serving.context_high > model.longest_context) {
    serving.context_high = model.longest_context;
    serving.context_low = std::min(serving.context_low, serving.context_high);
    plan.notes.push_back("contexts end at " + std::to_string(model.longest_context) +
                         ", the longest that the model was made for");
  }
  add_attention(plan, model, serving);
  add_experts(plan, model, serving);
  return plan;
}

}  // namespace moetune
