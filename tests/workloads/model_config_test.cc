// One config.json of each family of models, written from the public facts, read into workloads.
#include "workloads/model_config.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/registry.h"
#include "tests/paths.h"
#include "tests/refusal.h"
#include "workloads/workload_list.h"

using namespace moetune;

namespace {

struct Planned {
  ModelConfig config;
  ModelPlan plan;

  const ModelWorkload* find(const std::string& kernel) const {
    for (const ModelWorkload& one : plan.workloads)
      if (one.kernel == kernel) return &one;
    return nullptr;
  }
  std::string problem(const std::string& kernel) const { return find(kernel) == nullptr ? "" : find(kernel)->problem; }
  bool says(const std::string& part) const {
    const auto has = [&](const std::string& note) { return note.find(part) != std::string::npos; };
    return std::any_of(config.notes.begin(), config.notes.end(), has) ||
           std::any_of(plan.notes.begin(), plan.notes.end(), has);
  }
};

Planned plan_of(const std::string& model, const ServingShape& serving = {}) {
  Planned planned{read_model_config(paths::source("tests/workloads/configs/") + model + ".json"), {}};
  planned.plan = plan_model(planned.config.facts, serving);
  return planned;
}

// The message of what `text` is refused for.
std::string refusal(const std::string& text) {
  return refusal_of([&] { parse_model_config(text, "c.json"); });
}

}  // namespace

TEST_CASE("gpt-oss: windows beside full attention, sinks, and its way to score") {
  const Planned gpt = plan_of("gpt-oss-120b");
  REQUIRE(gpt.config.facts.attention.size() == 2);
  CHECK(gpt.problem("decode_attention") == "q_heads=64,kv_heads=8,head_dim=64,page=64,dtype=bf16,sinks=learned");
  CHECK(gpt.plan.workloads.size() == 8);
  CHECK(gpt.problem("moe_experts") ==
        "hidden=2880,experts=128,top_k=4,intermediate=2880,dtype=bf16,w=mxfp4,activation=swigluoai");
  CHECK(gpt.plan.workloads[2].problem ==
        "q_heads=64,kv_heads=8,head_dim=64,page=64,dtype=bf16,window=128,sinks=learned");
  CHECK(gpt.plan.workloads[2].weight == 18);
  CHECK(gpt.problem("router") == "experts=128,top_k=4,score=topk_softmax,dtype=bf16");
  CHECK(gpt.problem("moe_dispatch") == "hidden=2880,experts=128,top_k=4");
  CHECK(gpt.find("router")->weight == 36);
}

TEST_CASE("Qwen3-30B-A3B over two GPUs halves the heads and keeps the experts") {
  const Planned whole = plan_of("qwen3-30b-a3b"), half = plan_of("qwen3-30b-a3b", {.tensor_parallel = 2});
  CHECK(whole.problem("decode_attention") == "q_heads=32,kv_heads=4,head_dim=128,page=64,dtype=bf16");
  CHECK(half.problem("decode_attention") == "q_heads=16,kv_heads=2,head_dim=128,page=64,dtype=bf16");
  CHECK(plan_of("qwen3-30b-a3b", {.tensor_parallel = 8}).problem("prefill_attention") ==
        "batch=1,q_heads=4,kv_heads=1,head_dim=128,page=64,dtype=bf16");
  CHECK(half.problem("router") == whole.problem("router"));
  CHECK(whole.problem("router") == "experts=128,top_k=8,score=softmax,dtype=bf16");
  CHECK(whole.find("decode_attention")->ranges ==
        std::vector<DimensionRange>{{"batch", 1, 256}, {"context", 512, 40960}});
  CHECK(whole.says("contexts end at 40960"));
  CHECK_THROWS_AS(plan_of("qwen3-30b-a3b", {.tensor_parallel = 3}), BadInput);
}

TEST_CASE("DeepSeek-V3 and Kimi-K2: experts and steps over the latent are served, prompts are said not to be") {
  const Planned deepseek = plan_of("deepseek-v3"), kimi = plan_of("kimi-k2");
  for (const Planned* model : {&deepseek, &kimi}) {
    CHECK(model->find("decode_attention") == nullptr);
    CHECK(model->says("prefill of 61 layers: attention over a compressed latent (MLA) has no kernel"));
    CHECK(model->plan.workloads.size() == 5);
    CHECK(model->find("mla_decode")->weight == 61);
  }
  CHECK(deepseek.problem("mla_decode") == "heads=128,page=64,dtype=bf16");
  CHECK(deepseek.find("mla_decode")->ranges ==
        std::vector<DimensionRange>{{"batch", 1, 256}, {"context", 512, 131072}});
  CHECK(kimi.problem("mla_decode") == "heads=64,page=64,dtype=bf16");
  CHECK(plan_of("deepseek-v3", {.tensor_parallel = 8}).problem("mla_decode") == "heads=16,page=64,dtype=bf16");
  CHECK(plan_of("kimi-k2", {.page = 8}).says("decode of 61 layers cannot be served"));
  CHECK_THROWS_AS(plan_of("kimi-k2", {.tensor_parallel = 3}), BadInput);
  CHECK(deepseek.problem("moe_experts") == "hidden=7168,experts=256,top_k=8,intermediate=2048,dtype=bf16,w=e4m3");
  CHECK(deepseek.problem("router") ==
        "experts=256,top_k=8,score=sigmoid,dtype=fp32,bias=correction,groups=8,groups_kept=4");
  CHECK(deepseek.problem("moe_dispatch") == "hidden=7168,experts=256,top_k=8,out=e4m3,scale=group");
  CHECK(deepseek.find("router")->weight == 58);
  CHECK(kimi.problem("router") == "experts=384,top_k=8,score=sigmoid,dtype=fp32,bias=correction");
  CHECK(kimi.find("moe_combine")->weight == 60);
}

TEST_CASE("DeepSeek-V3.2: steps over the tokens that its indexer chooses") {
  Planned model{parse_model_config(
                    R"({"model_type":"deepseek_v32","num_hidden_layers":61,"hidden_size":7168,
              "num_attention_heads":128,"num_key_value_heads":128,"kv_lora_rank":512,"qk_rope_head_dim":64,
              "index_topk":2048,"intermediate_size":18432,"torch_dtype":"bfloat16"})",
                    "c.json"),
                {}};
  REQUIRE(model.config.facts.attention.size() == 1);
  CHECK(model.config.facts.attention[0].chosen == 2048);
  model.plan = plan_model(model.config.facts, {});
  CHECK(model.problem("mla_decode") ==
        "heads=128,page=64,dtype=bf16,tokens=chosen,context=2048,kv_dtype=e4m3,kv_scale=group");
  CHECK(model.find("mla_decode")->ranges == std::vector<DimensionRange>{{"batch", 1, 256}});
}

TEST_CASE("Mixtral, Qwen3 and Llama-3") {
  const Planned mixtral = plan_of("mixtral-8x7b");
  CHECK(mixtral.problem("decode_attention") == "q_heads=32,kv_heads=8,head_dim=128,page=64,dtype=bf16");
  CHECK(mixtral.problem("router") == "experts=8,top_k=2,score=softmax,dtype=bf16");
  CHECK(mixtral.problem("moe_combine") == "hidden=4096,experts=8,top_k=2");
  for (const char* dense : {"qwen3-32b", "llama-3-70b"}) {
    const Planned model = plan_of(dense);
    CHECK(model.plan.workloads.size() == 2);
    CHECK(model.problem("decode_attention") == "q_heads=64,kv_heads=8,head_dim=128,page=64,dtype=bf16");
    CHECK(model.says("no experts"));
  }
}

TEST_CASE("layers of linear attention are counted and said to have no kernel") {
  const Planned next = plan_of("qwen3-next-80b-a3b");
  CHECK(next.says("36 layers of linear_attention have no kernel"));
  REQUIRE(next.find("decode_attention") != nullptr);
  CHECK(next.find("decode_attention")->weight == 12);
  CHECK(next.problem("router") == "experts=512,top_k=10,score=softmax,dtype=bf16");
}

TEST_CASE("layers before max_window_layers have no window") {
  const ModelFacts facts =
      parse_model_config(
          R"({"model_type":"qwen3","num_hidden_layers":36,"hidden_size":2560,"num_attention_heads":32,
                             "num_key_value_heads":8,"head_dim":128,"sliding_window":4096,"use_sliding_window":true,
                             "max_window_layers":28})",
          "c.json")
          .facts;
  REQUIRE(facts.attention.size() == 2);
  for (const AttentionLayers& layers : facts.attention) {
    CAPTURE(layers.window);
    CHECK(layers.layers == (layers.window > 0 ? 8 : 28));
  }
}

TEST_CASE("a model in fp16 routes fp16, and what its kernels lack is said") {
  Planned model{parse_model_config(
                    R"({"model_type":"mixtral","num_hidden_layers":32,"hidden_size":4096,
              "num_attention_heads":32,"num_key_value_heads":8,"num_local_experts":8,
              "num_experts_per_tok":2,"torch_dtype":"float16"})",
                    "c.json"),
                {}};
  model.plan = plan_model(model.config.facts, {});
  CHECK(model.problem("router").find("dtype=fp16") != std::string::npos);
  CHECK(model.says("moe_dispatch and moe_combine have no fp16"));
  CHECK_FALSE(plan_of("mixtral-8x7b").says("have no fp16"));
}

TEST_CASE("every workload of every model is one that its kernel takes, and survives the file") {
  for (const char* name : {"gpt-oss-120b", "qwen3-30b-a3b", "deepseek-v3", "kimi-k2", "mixtral-8x7b", "llama-3-70b",
                           "qwen3-32b", "qwen3-next-80b-a3b"}) {
    CAPTURE(name);
    const Planned model = plan_of(name);
    WorkloadList list;
    for (const ModelWorkload& one : model.plan.workloads)
      list.entries.push_back(
          {.name = one.name, .kernel = one.kernel, .problem = one.problem, .ranges = one.ranges, .weight = one.weight});
    const WorkloadList read = parse_workloads(workloads_text(list), "list.json");
    CHECK(read.entries == list.entries);
    CHECK(points_of(read).size() >= list.entries.size() * 5);
  }
}

TEST_CASE("a heads' size that no kernel has is said, and so is an unknown kind of layer") {
  const std::string plain =
      R"("hidden_size": 1024, "num_attention_heads": 8, "num_hidden_layers": 2, "model_type": "llama")";
  ModelPlan plan = plan_model(parse_model_config("{" + plain + R"(, "head_dim": 72})", "c.json").facts, {});
  CHECK(plan.workloads.empty());
  REQUIRE(plan.notes.size() == 2);
  CHECK(plan.notes[0].find("head_dim=72 is not supported") != std::string::npos);
  plan = plan_model(parse_model_config("{" + plain + R"(, "head_dim": 80})", "c.json").facts, {});
  CHECK(plan.notes.empty());
  REQUIRE(plan.workloads.size() == 2);
  CHECK(plan.workloads[0].problem.find("head_dim=80") != std::string::npos);
  const ModelConfig chunked =
      parse_model_config("{" + plain + R"(, "layer_types": ["full_attention", "chunked_attention"]})", "c.json");
  CHECK(chunked.notes[0] == "1 layers of chunked_attention have no kernel");
}

TEST_CASE("layers with experts may be listed one by one") {
  const auto weight_of = [](const std::string& frequency) {
    const ModelConfig config = parse_model_config(
        "{\"num_hidden_layers\": 4, \"num_attention_heads\": 32, \"hidden_size\": 4096, \"num_experts\": 64,"
        " \"num_experts_per_tok\": 4, \"moe_layer_freq\": " +
            frequency + "}",
        "c.json");
    return config.facts.experts.layers;
  };
  CHECK(weight_of("[0, 1, 1, 0]") == 2);
  CHECK(weight_of("[1, 1, 1, 1]") == 4);
  CHECK(weight_of("2") == 2);
  CHECK_THROWS_AS(weight_of("[0, 7]"), BadInput);
}

TEST_CASE("what is wrong in a config.json is named with its line and key") {
  CHECK(refusal("{\n \"model_type\": \"a\\nb\"\n}") ==
        "c.json:2: model_type must be a word of at most 100 bytes (got \"a\\nb\")");
  CHECK(refusal("{\n \"num_hidden_layers\": 2,\n \"num_attention_heads\": \"many\"\n}") ==
        "c.json:3: num_attention_heads must be an integer from 1 to 1073741824 (got \"many\")");
  CHECK(refusal("{}") == "c.json:1: the document lacks the key 'num_hidden_layers'");
  CHECK(refusal("[1]").find("c.json:1: the document must be an object") == 0);
  CHECK(refusal("{\"num_hidden_layers\": 99999999}").find("num_hidden_layers must be an integer") != std::string::npos);
  CHECK(refusal("{\"num_hidden_layers\": 1, \"num_attention_heads\": 0, \"hidden_size\": 1}")
            .find("num_attention_heads") != std::string::npos);
  CHECK(refusal("{\"a\": 1, \"a\": 2}").find("c.json") != std::string::npos);
  CHECK(refusal(std::string(100, '[')).find("c.json") != std::string::npos);
  CHECK(refusal("{\"num_hidden_layers\": 2, \"layer_types\": [\"full_attention\"]}")
            .find("layer_types has 1 elements; num_hidden_layers is 2") != std::string::npos);
}

TEST_CASE("an unknown type is said once, with experts or without") {
  const auto notes_of = [](const std::string& type, const std::string& more = "") {
    const ModelConfig config = parse_model_config(
        "{\"model_type\": \"" + type +
            "\", \"num_hidden_layers\": 4, \"num_attention_heads\": 32, \"hidden_size\": 4096" + more + "}",
        "c.json");
    return std::count_if(config.notes.begin(), config.notes.end(),
                         [](const std::string& note) { return note.find("the model type") != std::string::npos; });
  };
  const std::string experts = ", \"num_experts\": 64, \"num_experts_per_tok\": 4";
  CHECK(notes_of("gemma9_text") == 1);
  CHECK(notes_of("gemma9_text", experts) == 1);
  for (const char* type : {"llama", "qwen3", "qwen3_moe", "mixtral"}) CHECK(notes_of(type, experts) == 0);
}

TEST_CASE("dense and sparse layers are distinguished by number, and experts that no layer uses are noted") {
  const auto read = [](const std::string& more) {
    return Planned{parse_model_config(
                       R"({"model_type": "qwen3_moe", "num_hidden_layers": 8, "num_attention_heads": 32,
 "hidden_size": 4096, "num_experts": 64, "num_experts_per_tok": 4, )" +
                           more + "}",
                       "c.json"),
                   {}};
  };
  const auto layers = [&](const std::string& more) { return read(more).config.facts.experts.layers; };
  CHECK(layers(R"("mlp_only_layers": [0, 1, 1])") == 6);
  CHECK(layers(R"("mlp_only_layers": [0, 1], "decoder_sparse_step": 2)") == 3);  // 3, 5, 7
  CHECK(layers(R"("first_k_dense_replace": 3)") == 5);
  for (const char* none : {R"("first_k_dense_replace": 100)", R"("mlp_only_layers": [0, 1, 2, 3, 4, 5, 6, 7])",
                           R"("decoder_sparse_step": 9)", R"("moe_layer_freq": [0, 0, 0, 0, 0, 0, 0, 0])"}) {
    CAPTURE(none);
    CHECK(layers(none) == 0);
    CHECK(read(none).says("it has 64 experts and no layer that uses them"));
  }
  CHECK_FALSE(read(R"("first_k_dense_replace": 3)").says("no layer that uses them"));
  for (const char* wrong : {R"(["a", {}])", "[8]", "[-1]", "[0.5]", "3"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(read(std::string(R"("mlp_only_layers": )") + wrong),
                         doctest::Contains("c.json:2: mlp_only_layers"), BadInput);
  }
}

TEST_CASE("a range that a kernel does not take is refused by its option's name") {
  const auto field = [](const char* model, const ServingShape& serving) {
    try {
      plan_of(model, serving);
    } catch (const BadField& error) {
      return error.field();
    }
    return std::string();
  };
  CHECK(field("qwen3-32b", {.batch_high = 1 << 20}) == "batch");
  CHECK(field("qwen3-32b", {.batch_low = 1 << 20, .batch_high = 1 << 20}) == "batch");
  CHECK(field("deepseek-v3", {.batch_high = std::int64_t{1} << 40}) == "batch");  // no attention, but tokens
  CHECK(field("qwen3-32b", {}) == "");
  const ModelFacts endless{.name = "m", .attention = {{.q_heads = 8, .kv_heads = 8, .head_dim = 128, .layers = 1}}};
  CHECK_THROWS_WITH_AS(plan_model(endless, {.context_high = std::int64_t{1} << 40}),
                       doctest::Contains("context: context of decode_attention must lie from 1 to "), BadField);
}
