// moe_experts of a model's configuration: how wide its experts are, and what keeps it from being served.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/workloads/read_config.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

struct Products {
  std::string problem, why;  // one of which is empty
};

Products products_of(const std::string& fields, const ServingShape& serving = {}) {
  const ModelConfig config = parse_model_config(model(fields), "c.json");
  const ModelPlan plan = plan_model(config.facts, serving);
  Products found;
  for (const ModelWorkload& one : plan.workloads) {
    if (one.kernel != "moe_experts") continue;
    CHECK(one.weight == 12);
    CHECK(one.ranges == std::vector<DimensionRange>{{"tokens", 1, 16384}});
    found.problem = one.problem;
  }
  for (const std::string& note : plan.notes)
    if (note.find("moe_experts") != std::string::npos) found.why += note;
  return found;
}

const std::string kQwen = R"("model_type": "qwen3_moe", "norm_topk_prob": true, "hidden_act": "silu")";
const std::string kMixtral = R"("model_type": "mixtral", "hidden_act": "silu", "intermediate_size": 14336)";

}  // namespace

TEST_CASE("an expert is as wide as the model says, and a GPU has its part of it") {
  const std::string wide = kQwen + R"(, "intermediate_size": 6144, "moe_intermediate_size": 768)";
  CHECK(products_of(wide).problem == "hidden=2048,experts=64,top_k=6,intermediate=768,dtype=bf16");
  CHECK(products_of(wide).why == "");
  CHECK(products_of(wide, {.tensor_parallel = 4}).problem ==
        "hidden=2048,experts=64,top_k=6,intermediate=192,dtype=bf16");
  CHECK(products_of(wide + R"(, "torch_dtype": "float16")").problem ==
        "hidden=2048,experts=64,top_k=6,intermediate=768,dtype=fp16");
  // Where all layers have experts, those of some families are as wide as a layer.
  CHECK(products_of(kMixtral).problem == "hidden=2048,experts=64,top_k=6,intermediate=14336,dtype=bf16");
  CHECK(products_of(kMixtral + R"(, "moe_intermediate_size": [512, 512])").problem ==
        "hidden=2048,experts=64,top_k=6,intermediate=512,dtype=bf16");
}

TEST_CASE("experts whose weights are quantized have a family of their own") {
  const std::string wide = kQwen + R"(, "moe_intermediate_size": 768)";
  CHECK(products_of(wide + R"(, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]})")
            .problem == "hidden=2048,experts=64,top_k=6,intermediate=768,dtype=bf16,w=e4m3");
  const std::string gpt_oss = R"("model_type": "gpt_oss", "hidden_act": "silu", "intermediate_size": 2880,)"
                              R"("swiglu_limit": 7.0, "quantization_config": {"quant_method": "mxfp4"})";
  CHECK(products_of(gpt_oss).problem ==
        "hidden=2048,experts=64,top_k=6,intermediate=2880,dtype=bf16,w=mxfp4,activation=swigluoai");
  CHECK(products_of(R"("model_type": "gpt_oss", "hidden_act": "silu", "intermediate_size": 2880)").problem ==
        "hidden=2048,experts=64,top_k=6,intermediate=2880,dtype=bf16,activation=swigluoai,layout=n_major");
}

TEST_CASE("experts that moe_experts does not compute are left out and named") {
  const auto check = [](const std::string& fields, const std::string& part, const ServingShape& serving = {}) {
    CAPTURE(fields);
    const Products found = products_of(fields, serving);
    CAPTURE(found.why);
    CHECK(found.problem == "");
    CHECK(found.why.find(part) != std::string::npos);
  };
  const std::string wide = R"(, "moe_intermediate_size": 768)";
  check(kQwen + R"(, "intermediate_size": 6144)", "how wide an expert is, is not said");
  check(kQwen + R"(, "moe_intermediate_size": [768, 512])", "is not the same number for every layer");
  check(R"("model_type": "qwen3_moe", "norm_topk_prob": true)" + wide, "their activation is not said");
  check(R"("model_type": "gemma4_text", "hidden_activation": "gelu_pytorch_tanh")" + wide,
        "their activation has no kernel (got \"gelu_pytorch_tanh\")");
  check(R"("model_type": "one_of_tomorrow", "hidden_act": "silu")" + wide, "what its experts compute is not known");
  const std::string gpt_oss = R"("model_type": "gpt_oss", "hidden_act": "silu", "intermediate_size": 2880)";
  for (const char* limit : {"6.5", "6", R"("7")"})
    check(gpt_oss + R"(, "quantization_config": {"quant_method": "mxfp4"}, "swiglu_limit": )" + limit,
          "elsewhere than at 7");
  check(R"("model_type": "minimax_m3_vl_text", "hidden_act": "silu", "intermediate_size": 2880)",
        "clamped, and joined");
  check(R"("model_type": "deepseek_v4", "hidden_act": "silu")" + wide, "gate and up are clamped");
  check(R"("model_type": "llama4", "hidden_act": "silu")" + wide, "tokens are weighted before their experts");
  check(kQwen + wide + R"(, "quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 128]})",
        "weights that are quantized so have no kernel (got \"fp8\")");
  check(kQwen + wide + R"(, "quantization_config": {"quant_method": "awq"})",
        "weights that are quantized so have no kernel (got \"awq\")");
  check(kQwen + wide, "moe_experts is left out: how many rows one of 8 GPUs gets", {.expert_parallel = 8});
  check(kQwen + R"(, "moe_intermediate_size": 772)", "is no multiple of 8");
  check(kQwen + R"(, "moe_intermediate_size": 770)", "4 GPUs do not divide an expert's 770 values",
        {.tensor_parallel = 4});
}
