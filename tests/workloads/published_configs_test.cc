// Configurations as they are published, and what is right for each: a line a workload but for prefill and moe_combine,
// which follow from the others, and a part of every note.
#include <filesystem>

#include "base/error.h"
#include "tests/paths.h"
#include "tests/workloads/read_config.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

const std::string kPublished = paths::source("tests/workloads/configs/published/");

struct PublishedCase {
  const char* file;
  std::vector<std::string> lines, notes;
};

const std::string kQwen3 = "decode_attention q_heads=32,kv_heads=4,head_dim=128,page=64,dtype=bf16";
const std::string kLlama4 = "decode_attention q_heads=40,kv_heads=8,head_dim=128,page=64,dtype=bf16";

const std::vector<PublishedCase> kCases = {
    {"minimax_text_01",
     {"10 decode_attention q_heads=64,kv_heads=8,head_dim=128,page=64,dtype=bf16 to 131072",
      "80 router experts=32,top_k=2,score=softmax,dtype=fp32", "80 moe_dispatch hidden=6144,experts=32,top_k=2"},
     {"70 layers of linear_attention have no kernel"}},
    {"jamba_1.5_mini",
     {"4 decode_attention q_heads=32,kv_heads=8,head_dim=128,page=64,dtype=bf16 to 131072",
      "16 router experts=16,top_k=2,score=softmax,dtype=bf16,renormalize=no",
      "16 moe_dispatch hidden=4096,experts=16,top_k=2"},
     {"28 layers of linear_attention have no kernel"}},
    {"llama4_maverick",
     {"36 " + kLlama4 + " to 8192", "12 " + kLlama4 + " to 131072",
      "24 router experts=128,top_k=1,score=sigmoid,dtype=bf16,renormalize=no",
      "24 moe_dispatch hidden=5120,experts=128,top_k=1"},
     {}},
    {"tf5_mlp_layer_types",
     {"47 decode_attention q_heads=16,kv_heads=4,head_dim=128,page=64,dtype=bf16 to 131072",
      "46 router experts=64,top_k=4,score=sigmoid,dtype=fp32,bias=correction",
      "46 moe_dispatch hidden=2048,experts=64,top_k=4"},
     {}},
    {"ernie45_21b_a3b",
     {"28 decode_attention q_heads=20,kv_heads=4,head_dim=128,page=64,dtype=bf16 to 131072",
      "27 router experts=64,top_k=6,score=softmax,dtype=fp32,bias=correction",
      "27 moe_dispatch hidden=2560,experts=64,top_k=6"},
     {}},
    {"ernie45_vl_28b",
     {"28 decode_attention q_heads=20,kv_heads=4,head_dim=128,page=64,dtype=bf16 to 131072",
      "27 router experts=64,top_k=6,score=softmax,dtype=fp32,bias=correction",
      "27 moe_dispatch hidden=2560,experts=64,top_k=6"},
     {}},
    {"deepseek_v4",
     {"43 router experts=256,top_k=6,score=sqrt_softplus,dtype=fp32,bias=correction",
      "43 moe_dispatch hidden=4096,experts=256,top_k=6"},
     {"decode and prefill of 43 layers: attention over compressed entries beside a window has no kernel"}},
    {"dbrx",
     {"40 decode_attention q_heads=48,kv_heads=8,head_dim=128,page=64,dtype=bf16 to 32768",
      "40 router experts=16,top_k=4,score=softmax,dtype=bf16", "40 moe_dispatch hidden=6144,experts=16,top_k=4"},
     {"contexts end at 32768"}},
    {"longcat_flash",
     {"28 router experts=768,top_k=12,score=softmax,dtype=fp32,bias=correction,renormalize=no",
      "28 moe_dispatch hidden=6144,experts=512,top_k=12"},
     {"decode and prefill of 28 layers: attention over a compressed latent (MLA) has a kernel for kv_lora_rank 512",
      "256 more experts give a token back"}},
    {"qwen3_omni",
     {"48 " + kQwen3 + " to 65536", "48 router experts=128,top_k=8,score=softmax,dtype=bf16",
      "48 moe_dispatch hidden=2048,experts=128,top_k=8"},
     {"contexts end at 65536"}},
    {"mistral_params",
     {"40 decode_attention q_heads=48,kv_heads=8,head_dim=128,page=64,dtype=bf16 to 131072",
      "40 router experts=8,top_k=2,score=softmax,dtype=bf16", "40 moe_dispatch hidden=6144,experts=8,top_k=2"},
     {}},
    {"minimax_m2",
     {"62 decode_attention q_heads=48,kv_heads=8,head_dim=128,page=64,dtype=bf16 to 131072",
      "62 router experts=256,top_k=8,score=sigmoid,dtype=fp32,bias=correction",
      "62 moe_dispatch hidden=3072,experts=256,top_k=8,out=e4m3,scale=group"},
     {}},
    {"deepseek_v3_no_topk_method",
     {"58 router experts=256,top_k=8,score=sigmoid,dtype=fp32,bias=correction,groups=8,groups_kept=4",
      "58 moe_dispatch hidden=7168,experts=256,top_k=8"},
     {"decode and prefill of 61 layers: attention over a compressed latent (MLA) has a kernel for kv_lora_rank 512"}},
    {"fp8_per_tensor",
     {"48 " + kQwen3 + " to 40960", "48 router experts=128,top_k=8,score=softmax,dtype=bf16",
      "48 moe_dispatch hidden=2048,experts=128,top_k=8"},
     {"moe_dispatch sends bf16, because of the quantization: its scales are for a whole tensor",
      "contexts end at 40960"}},
    {"kimi_k3_experts",
     {"4 router experts=896,top_k=16,score=sigmoid,dtype=fp32,bias=correction",
      "4 moe_dispatch hidden=7168,experts=896,top_k=16"},
     {"decode and prefill of 4 layers: it lacks layer_types, and its layers are of several kinds"}},
    {"qwen3_yarn",
     {"48 " + kQwen3 + " to 131072", "48 router experts=128,top_k=8,score=softmax,dtype=bf16",
      "48 moe_dispatch hidden=2048,experts=128,top_k=8"},
     {}},
    {"tf5_yarn_rope_parameters",
     {"48 " + kQwen3 + " to 131072", "48 router experts=128,top_k=8,score=softmax,dtype=bf16",
      "48 moe_dispatch hidden=2048,experts=128,top_k=8"},
     {}},
    {"arctic",
     {"35 decode_attention q_heads=56,kv_heads=8,head_dim=128,page=64,dtype=bf16 to 4096",
      "35 router experts=128,top_k=2,score=softmax,dtype=bf16", "35 moe_dispatch hidden=7168,experts=128,top_k=2"},
     {"contexts end at 4096"}},
    {"bom",
     {"92 decode_attention q_heads=96,kv_heads=8,head_dim=128,page=64,dtype=bf16 to 131072",
      "89 router experts=160,top_k=8,score=sigmoid,dtype=fp32,bias=correction",
      "89 moe_dispatch hidden=5120,experts=160,top_k=8"},
     {}},
    {"dots1",
     {"62 decode_attention q_heads=32,kv_heads=32,head_dim=128,page=64,dtype=bf16 to 32768",
      "61 router experts=128,top_k=6,score=sigmoid,dtype=fp32,bias=correction",
      "61 moe_dispatch hidden=4096,experts=128,top_k=6"},
     {"contexts end at 32768"}},
    {"ling_flash",
     {"32 " + kQwen3 + " to 32768",
      "31 router experts=256,top_k=8,score=sigmoid,dtype=fp32,bias=correction,groups=8,groups_kept=4",
      "31 moe_dispatch hidden=4096,experts=256,top_k=8"},
     {"contexts end at 32768"}},
    {"head_dim_null_mixtral",
     {"32 decode_attention q_heads=32,kv_heads=8,head_dim=128,page=64,dtype=bf16 to 32768",
      "32 router experts=8,top_k=2,score=softmax,dtype=bf16", "32 moe_dispatch hidden=4096,experts=8,top_k=2"},
     {"contexts end at 32768"}},
    {"tf5_float_infinity",
     {"2 decode_attention q_heads=32,kv_heads=8,head_dim=128,page=64,dtype=bf16 to 8192",
      "4 router experts=8,top_k=2,score=topk_softmax,dtype=bf16", "4 moe_dispatch hidden=4096,experts=8,top_k=2"},
     {"2 layers of linear_attention have no kernel", "contexts end at 8192"}},
    {"fp8_block64",
     {"48 " + kQwen3 + " to 40960", "48 router experts=128,top_k=8,score=softmax,dtype=bf16",
      "48 moe_dispatch hidden=2048,experts=128,top_k=8,out=e4m3,scale=group"},
     {"contexts end at 40960"}},
    {"glm45",
     {"92 decode_attention q_heads=96,kv_heads=8,head_dim=128,page=64,dtype=bf16 to 131072",
      "89 router experts=160,top_k=8,score=sigmoid,dtype=fp32,bias=correction",
      "89 moe_dispatch hidden=5120,experts=160,top_k=8"},
     {}},
    {"gptoss_real",
     {"12 decode_attention q_heads=64,kv_heads=8,head_dim=64,page=64,dtype=bf16,sinks=learned to 131072",
      "12 decode_attention q_heads=64,kv_heads=8,head_dim=64,page=64,dtype=bf16,window=128,sinks=learned to 131072",
      "24 router experts=32,top_k=4,score=topk_softmax,dtype=bf16", "24 moe_dispatch hidden=2880,experts=32,top_k=4"},
     {}},
    {"grok1",
     {"64 decode_attention q_heads=48,kv_heads=8,head_dim=128,page=64,dtype=bf16 to 8192",
      "64 moe_dispatch hidden=6144,experts=8,top_k=2"},
     {"the model type 'grok-1' is not known", "how this model scores its experts is not known",
      "contexts end at 8192"}},
    {"kimi_k2",
     {"60 router experts=384,top_k=8,score=sigmoid,dtype=fp32,bias=correction",
      "60 moe_dispatch hidden=7168,experts=384,top_k=8,out=e4m3,scale=group"},
     {"decode and prefill of 61 layers: attention over a compressed latent (MLA) has a kernel for kv_lora_rank 512"}},
    {"olmoe",
     {"16 decode_attention q_heads=16,kv_heads=16,head_dim=128,page=64,dtype=bf16 to 4096",
      "16 router experts=64,top_k=8,score=softmax,dtype=bf16,renormalize=no",
      "16 moe_dispatch hidden=2048,experts=64,top_k=8"},
     {"contexts end at 4096"}},
};

}  // namespace

TEST_CASE("every configuration as it is published gives its right value") {
  for (const PublishedCase& one : kCases) {
    CAPTURE(one.file);
    const ReadModel read = lines_of(read_model_config(kPublished + one.file + ".json"));
    CHECK(read.lines == one.lines);
    check_notes(read.notes, one.notes);
  }
}

TEST_CASE("a key that occurs twice is refused, and every published configuration is in the table") {
  CHECK_THROWS_WITH_AS(read_model_config(kPublished + "dup_key.json"),
                       doctest::Contains("the key 'torch_dtype' occurs twice"), BadInput);
  std::size_t files = 0;
  for (const auto& ignored : std::filesystem::directory_iterator(kPublished)) files += ignored.exists();
  CHECK(files == kCases.size() + 1);
}
