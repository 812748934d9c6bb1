// The families that a server opens for a model: the rows of kernels/server_workloads.cc, as the plug-ins open them.
#include "kernels/server_workloads.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "kernels/registry.h"
#include "tests/paths.h"
#include "workloads/model_config.h"

using namespace moetune;

namespace {

struct ServerList {
  std::set<std::string> families;  // "KERNEL SPECIALIZATION", without what is the kernel's usual value
  std::vector<std::string> notes;
  ModelPlan plan;

  bool notes_hold(const std::string& text) const {
    return std::ranges::any_of(notes, [&](const std::string& note) { return note.find(text) != std::string::npos; });
  }
};

ServerList listed(const ModelConfig& config, const ServerShape& shape) {
  ServerList made{.notes = config.notes, .plan = plan_server(config.facts, shape)};
  made.notes.insert(made.notes.end(), made.plan.notes.begin(), made.plan.notes.end());
  for (const ModelWorkload& one : made.plan.workloads) {
    const Kernel& kernel = find_kernel(one.kernel);
    const auto of = [&](const std::string& problem) { return kernel.specialization(kernel.parse(problem)); };
    const Assignment usual = of("");
    std::string text = one.kernel;
    for (const auto& [name, value] : of(one.problem)) {
      const Value* const other = usual.find(name);
      if (other == nullptr || !(*other == value)) text += " " + name + "=" + value.text();
    }
    made.families.insert(text);
  }
  return made;
}

ServerList of_file(const std::string& name, const ServerShape& shape) {
  return listed(read_model_config(paths::source("tests/workloads/configs/" + name)), shape);
}

ServerList of_text(const std::string& text, const ServerShape& shape) {
  return listed(parse_model_config(text, "c.json"), shape);
}

using Families = std::set<std::string>;

const std::string kGptOss = R"({"model_type": "gpt_oss", "hidden_size": 2880, "num_attention_heads": 64,
  "num_key_value_heads": 8, "head_dim": 64, "num_hidden_layers": 4, "intermediate_size": 2880, "sliding_window": 128,
  "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
  "num_local_experts": 32, "num_experts_per_tok": 4, "hidden_act": "silu", "max_position_embeddings": 131072)";

}  // namespace

TEST_CASE("vLLM opens paged attention, and experts by ids") {
  CHECK(of_file("qwen3-30b-a3b.json", {.server = "vllm"}).families ==
        Families{"decode_attention page=64", "prefill_attention group=8 page=64", "route_plan experts=128 align=1",
                 "moe_experts hidden=2048 experts=128 intermediate=768"});
  const ServerList spread = of_file(
      "qwen3-30b-a3b.json",
      {.server = "vllm", .serving = {.tensor_parallel = 4, .expert_parallel = 4}, .page = 16, .narrow_kv = true});
  CHECK(spread.families == Families{"decode_attention page=16 kv_dtype=e4m3",
                                    "prefill_attention group=8 page=16 kv_dtype=e4m3 kv_scale=tensor",
                                    "route_plan experts=32 map=local align=1",
                                    "moe_experts hidden=2048 experts=32 intermediate=768"});
  // One call for all prompts of a step, the last few tokens of a long one too.
  const auto prompts = std::ranges::find(spread.plan.workloads, "prefill_attention", &ModelWorkload::kernel);
  REQUIRE(prompts != spread.plan.workloads.end());
  CHECK(prompts->ranges ==
        std::vector<DimensionRange>{{"batch", 1, 64}, {"seqlen_q", 1, 8192}, {"seqlen_kv", 512, 8192}});
  const ServerList drafted = of_file("qwen3-30b-a3b.json", {.server = "vllm", .drafts = 3});
  CHECK(drafted.families.size() == 5);
  CHECK(drafted.families.contains("decode_attention page=64"));
  CHECK(drafted.families.contains("decode_attention page=64 q_len=4"));
  const ServerList cut = of_file("qwen3-30b-a3b.json", {.server = "vllm", .serving = {.tensor_parallel = 2}});
  CHECK(cut.families.contains("moe_experts hidden=2048 experts=128 intermediate=384"));
}

TEST_CASE("SGLang opens the same of its own layout, and no e4m3") {
  const ServerList list =
      of_file("qwen3-30b-a3b.json", {.server = "sglang", .serving = {.tensor_parallel = 4, .expert_parallel = 2}});
  CHECK(list.families.contains("route_plan experts=64 align=1"));  // its ids are local
  CHECK(list.families.contains("moe_experts hidden=2048 experts=64 intermediate=384"));
  for (const ModelWorkload& one : list.plan.workloads)
    if (one.kernel == "decode_attention") CHECK(one.problem.find("layout=nhd") != std::string::npos);
  CHECK_THROWS_AS(of_file("qwen3-30b-a3b.json", {.server = "sglang", .narrow_kv = true}), BadField);
}

TEST_CASE("transformers opens contiguous caches, windows with and without, norms and RoPE") {
  const ServerList list = of_text(kGptOss + "}", {.server = "transformers"});
  CHECK(list.families ==
        Families{"decode_attention head_dim=64 sinks=learned", "decode_attention head_dim=64 window=128 sinks=learned",
                 "prefill_attention group=8 head_dim=64 sinks=learned",
                 "prefill_attention group=8 head_dim=64 window=128 sinks=learned",
                 "route_plan experts=32 top_k=4 ids=i64 align=1",
                 "moe_experts hidden=2880 experts=32 top_k=4 intermediate=2880 activation=swigluoai "
                 "layout=n_major",
                 "add_rmsnorm hidden=2880",
                 "qk_norm_rope q_heads=64 kv_heads=8 head_dim=64 rotary_dim=64 tables=bf16 norm=no",
                 "qk_norm_rope q_heads=64 kv_heads=8 head_dim=64 rotary_dim=64 tables=bf16 norm=no kv=pages page=1",
                 "few_rows_linear in=2880 bias=yes", "few_rows_linear in=4096 out=2880 bias=yes",
                 "few_rows_linear in=2880 out=32 bias=yes",
                 "router experts=32 top_k=4 score=topk_softmax dtype=bf16 outputs=weights ids=i64",
                 "gate_route hidden=2880 experts=32 top_k=4 score=topk_softmax gate_bias=yes ids=i64"});
  const ServerList headed = of_text(kGptOss + R"(, "vocab_size": 201088, "attention_bias": false})",
                                    {.server = "transformers", .serving = {.batch_low = 3}});
  for (const char* family : {"few_rows_linear in=2880", "few_rows_linear in=4096 out=2880",
                             "few_rows_linear in=2880 out=32 bias=yes", "few_rows_linear in=2880 out=201088"})
    CHECK(headed.families.contains(family));
  const auto few = std::ranges::find(headed.plan.workloads, "few_rows_linear", &ModelWorkload::kernel);
  REQUIRE(few != headed.plan.workloads.end());
  CHECK(few->ranges == std::vector<DimensionRange>{{"tokens", 3, 16}});
  const auto gated = std::ranges::find(headed.plan.workloads, "gate_route", &ModelWorkload::kernel);
  REQUIRE(gated != headed.plan.workloads.end());
  CHECK(gated->ranges == std::vector<DimensionRange>{{"tokens", 17, 64}});
  const ServerList many = of_text(kGptOss + "}", {.server = "transformers", .serving = {.batch_low = 17}});
  CHECK(std::ranges::find(many.plan.workloads, "few_rows_linear", &ModelWorkload::kernel) == many.plan.workloads.end());
  const ServerList half = of_text(kGptOss + R"(, "torch_dtype": "float16"})", {.server = "transformers"});
  CHECK(half.families.contains("add_rmsnorm hidden=2880 dtype=f16 out=f16"));
  CHECK(half.families.contains(
      "qk_norm_rope q_heads=64 kv_heads=8 head_dim=64 rotary_dim=64 dtype=f16 tables=f16 norm=no"));
}

TEST_CASE("what stays the server's own is named, and the rest is listed") {
  const std::string quantized = kGptOss + R"(, "quantization_config": {"quant_method": "mxfp4"}})";
  for (const char* server : {"vllm", "sglang", "transformers"}) {
    const ServerList list = of_text(quantized, {.server = server});
    CHECK(list.notes_hold("moe_experts: quantized ones (mxfp4) are left to " + std::string(server)));
    CHECK(std::ranges::none_of(list.families, [](const std::string& family) { return family.starts_with("moe_"); }));
    CHECK(std::ranges::count_if(list.families,
                                [](const std::string& family) { return family.starts_with("decode_attention"); }) == 2);
  }
  CHECK(of_text(kGptOss + "}", {.server = "vllm"}).notes_hold("those with gpt-oss' activation are left to vllm"));

  // One layer that is not understood: a server that serves all or none has none.
  const std::string mixed = R"({"model_type": "qwen3", "hidden_size": 256, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 64, "num_hidden_layers": 2, "max_position_embeddings": 4096,
    "layer_types": ["full_attention", "linear_attention"]})";
  const ServerList whole = of_text(mixed, {.server = "transformers"});
  CHECK(whole.families == Families{"add_rmsnorm hidden=256", "add_rmsnorm hidden=64",  // of heads, too
                                   "few_rows_linear in=256 out=512", "few_rows_linear in=256 out=128",
                                   "few_rows_linear in=512 out=256"});
  CHECK(whole.notes_hold("transformers serves it in all layers or in none, and 1 of 2 are understood"));
  CHECK(of_text(mixed, {.server = "vllm"}).families ==
        Families{"decode_attention group=4 head_dim=64 page=64", "prefill_attention head_dim=64 page=64"});

  CHECK(of_text(R"({"model_type": "phi3", "hidden_size": 768, "num_attention_heads": 8, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "max_position_embeddings": 4096})",
                {.server = "vllm"})
            .families ==
        Families{"decode_attention group=4 head_dim=96 page=64", "prefill_attention head_dim=96 page=64"});

  const ServerList unknown = of_text(R"({"model_type": "olmo2", "hidden_size": 256, "num_attention_heads": 8,
    "num_hidden_layers": 2, "max_position_embeddings": 4096, "head_dim": 72})",
                                     {.server = "transformers"});
  CHECK(unknown.families.empty());
  CHECK(unknown.notes_hold("what lies between the products of this model is not known"));
  CHECK(unknown.notes_hold("decode_attention of 2 layers cannot be served"));
}

TEST_CASE("a server's options are refused by name") {
  const auto refused = [](const ServerShape& shape) {
    try {
      of_file("qwen3-30b-a3b.json", shape);
    } catch (const BadField& error) {
      return std::string(error.field());
    }
    return std::string();
  };
  CHECK(refused({.server = "vlm"}) == "server");
  CHECK(refused({.server = "transformers", .serving = {.tensor_parallel = 2}}) == "tp");
  CHECK(refused({.server = "transformers", .serving = {.expert_parallel = 2}}) == "ep");
  CHECK(refused({.server = "transformers", .page = 16}) == "page");
  CHECK(refused({.server = "vllm", .page = 0}) == "page");
  CHECK(refused({.server = "vllm", .serving = {.tensor_parallel = 4, .expert_parallel = 2}}) == "ep");
  CHECK(refused({.server = "vllm", .serving = {.expert_parallel = 2}}) == "ep");
  CHECK(refused({.server = "sglang", .serving = {.tensor_parallel = 2, .expert_parallel = 4}}) == "ep");
  CHECK(refused({.server = "sglang", .drafts = 1}) == "drafts");
  CHECK(refused({.server = "vllm", .serving = {.batch_high = std::int64_t{1} << 40}}) == "batch");
}

TEST_CASE("a type that transformers' plug-in refuses lists nothing, and any quantization is read") {
  const ServerList wide = of_text(kGptOss + R"(, "torch_dtype": "float32"})", {.server = "transformers"});
  CHECK(wide.families.empty());
  CHECK(wide.notes_hold("the model is in float32; bf16 and fp16 are served"));
  CHECK_FALSE(of_text(kGptOss + R"(, "torch_dtype": "float32"})", {.server = "vllm"}).families.empty());
  const ServerList none = of_text(kGptOss + R"(, "quantization_config": {}})", {.server = "transformers"});
  CHECK(none.families == of_text(kGptOss + "}", {.server = "transformers"}).families);
  const ServerList packed = of_text(kGptOss + R"(, "compression_config": {"quant_method": "compressed-tensors"}})",
                                    {.server = "transformers"});
  CHECK(packed.notes_hold("quantized projections (compressed-tensors)"));
  CHECK(std::ranges::none_of(packed.families, [](const std::string& family) { return family.starts_with("moe_"); }));
}
