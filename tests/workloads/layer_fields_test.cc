// Fields that say which layers attend how, and which have experts.
#include "base/error.h"
#include "tests/workloads/read_config.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// Models of 12 layers; steps do not divide that, so that it matters whether they begin or end with their layer.
const std::vector<FieldRule> kAttentionRules = {
    {R"("model_type": "qwen2_moe", "layer_types": ["full_attention", "attention", "linear_attention", "mamba",
 "sliding_attention", "local", "full", "global", "conv", "conv", "conv", "conv"], "sliding_window": 512)",
     {"4 decode_attention", "2 decode_attention", "12 router"},
     {"4 layers of conv", "1 layers of linear_attention", "1 layers of mamba"}},
    {R"("model_type": "minimax", "attn_type_list": [0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1])",
     {"4 decode_attention", "12 router"},
     {"8 layers of linear_attention"}},
    {R"("model_type": "nemotron_h", "hybrid_override_pattern": "MEMEM*EM-*EM")",
     {"2 decode_attention", "4 router"},
     {"5 layers of mamba have no kernel"}},
    {R"("model_type": "exaone_moe", "sliding_window_pattern": "LLLLG", "sliding_window": 4096)",
     {"2 decode_attention", "10 decode_attention", "12 router"},
     {}},
    {R"("model_type": "afmoe", "global_attn_every_n_layers": 5, "sliding_window": 2048)",
     {"2 decode_attention", "10 decode_attention", "12 router"},
     {}},
    {R"("model_type": "qwen3_next", "full_attention_interval": 5)",
     {"2 decode_attention", "12 router"},
     {"10 layers of linear_attention"}},
    {R"("model_type": "bailing_moe_linear", "layer_group_size": 7)",
     {"1 decode_attention", "12 router"},
     {"11 layers of linear_attention"}},
    {R"("model_type": "jamba", "attn_layer_period": 5, "attn_layer_offset": 4)",
     {"2 decode_attention", "12 router"},
     {"10 layers of linear_attention"}},
    {R"("model_type": "lfm2_moe", "full_attn_idxs": [2, 5, 9])",
     {"3 decode_attention", "12 router"},
     {"9 layers of conv"}},
    {R"("model_type": "kimi_linear", "linear_attn_config": {"full_attn_layers": [4, 8, 12], "kda_layers": [1, 2, 3]})",
     {"3 decode_attention", "12 router"},
     {"9 layers of linear_attention"}},
    {R"("model_type": "mimo_v2_flash", "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0],
 "sliding_window": 128, "attention_chunk_size": 128, "add_swa_attention_sink_bias": true,
 "swa_num_key_value_heads": 8)",
     {"3 decode_attention q_heads=16,kv_heads=4,head_dim=128,page=64,dtype=bf16 to",
      "9 decode_attention q_heads=16,kv_heads=8,head_dim=128,page=64,dtype=bf16,window=128,sinks=learned", "12 router"},
     {}},
    {R"("model_type": "llama4_text", "attention_chunk_size": 8192, "no_rope_layers": [])",
     {"9 decode_attention", "3 decode_attention", "12 router"},
     {}},
    {R"("model_type": "mixtral", "sliding_window": [null, 1024, 512])",
     {"4 decode_attention q_heads=16,kv_heads=4,head_dim=128,page=64,dtype=bf16 to",
      "4 decode_attention q_heads=16,kv_heads=4,head_dim=128,page=64,dtype=bf16,window=512",
      "4 decode_attention q_heads=16,kv_heads=4,head_dim=128,page=64,dtype=bf16,window=1024", "12 router"},
     {}},
    {R"("model_type": "mixtral", "sliding_window": [null, null, 1024])",  // as Mistral writes it
     {"8 decode_attention", "4 decode_attention", "12 router"},
     {}},
    {R"("model_type": "gpt_oss", "sliding_window": 128)",
     {"6 decode_attention", "6 decode_attention", "12 router"},
     {}},
    // A window as long as the context hides nothing, and one that is not in use does not either.
    {R"("model_type": "phimoe", "sliding_window": 65536)",
     {"12 decode_attention q_heads=16,kv_heads=4,head_dim=128,"
      "page=64,dtype=bf16 to 65536"},
     {"router: each expert is chosen by logits close to the best"}},
    {R"("model_type": "mixtral", "sliding_window_size": -1, "moe_intermediate_size": [768, 768, 768, 768, 768, 768, 768,
 768, 768, 768, 768, 512])",
     {"12 decode_attention q_heads=16,kv_heads=4,head_dim=128,page=64,dtype=bf16 to", "12 router"},
     {}},
    {R"("model_type": "qwen2_moe", "sliding_window": 4096, "use_sliding_window": false)",
     {"12 decode_attention q_heads=16,kv_heads=4,head_dim=128,page=64,dtype=bf16 to", "12 router"},
     {}},
    // Entries of layers that guess further tokens ahead stand at the end.
    {R"("model_type": "step3p5", "num_nextn_predict_layers": 1, "sliding_window": 512, "layer_types": [
 "full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention",
 "sliding_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
 "sliding_attention", "sliding_attention", "full_attention"],
 "attention_other_setting": {"num_attention_heads": 32, "num_attention_groups": 8, "head_dim": 64})",
     {"3 decode_attention q_heads=16,kv_heads=4,head_dim=128",
      "9 decode_attention q_heads=32,kv_heads=8,head_dim=64,page=64,dtype=bf16,window=512", "12 router"},
     {}},
    {R"("model_type": "mixtral", "attn_logit_softcapping": 30.0)",
     {"12 decode_attention q_heads=16,kv_heads=4,head_dim=128,page=64,dtype=bf16,softcap=30 to", "12 router"},
     {}},
    {R"("model_type": "llama", "num_key_value_heads_per_layer": [4, 4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8])",
     {"6 decode_attention q_heads=16,kv_heads=4,", "6 decode_attention q_heads=16,kv_heads=8,"},
     {"how this model scores"}},
    {R"("model_type": "laguna", "num_attention_heads_per_layer": [16, 16, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8])",
     {"10 decode_attention q_heads=8,", "2 decode_attention q_heads=16,", "12 router"},
     {}},
    {R"("model_type": "gemma4_text", "layer_types": ["sliding_attention", "sliding_attention", "full_attention",
 "sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
 "full_attention", "sliding_attention", "sliding_attention", "full_attention"], "sliding_window": 512,
 "global_head_dim": 512)",
     {"8 decode_attention", "12 router"},
     {"decode of 4 layers cannot be served: decode_attention: head_dim=512", "prefill of 4 layers"}},
};

const std::vector<std::string> kServedExperts = {"12 router experts=64,top_k=6,score=softmax"};

const std::string kQwenBegins = R"("model_type": "qwen3_moe", "norm_topk_prob": true, )",
                  kMixtralBegins = R"("model_type": "mixtral", )";

// Nothing attends, and the experts are served.
FieldRule unserved(const std::string& model, const std::string& fields, const char* note) {
  return {model + fields, kServedExperts, {note}};
}

const std::vector<FieldRule> kUnknownAttention = {
    unserved(kQwenBegins, R"("layer_types": ["a b", "", "", "", "", "", "", "", "", "",
 "", ""])",
             "decode and prefill of 12 layers: a kind of layer is no word"),
    unserved(kQwenBegins, R"("attention_layer_pattern": "FSSS")",
             "decode and prefill of 12 layers: attention_layer_pattern is not understood"),
    unserved(kQwenBegins, R"("swa_layers": [1, 2], "sliding_window": 64)", "swa_layers is not understood"),
    unserved(kQwenBegins, R"("sliding_window_pattern": "LXG", "sliding_window": 64)",
             "sliding_window_pattern has a letter that is not known"),
    unserved(kQwenBegins, R"("attn_type_list": [0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2])",
             "attn_type_list has values that are not known (got 2)"),
    unserved(kQwenBegins, R"("attention_window": 512)", "attention_window is not understood"),
    unserved(kQwenBegins, R"("attention_chunk_size": 8192)", "which layers attention_chunk_size is for is not said"),
    unserved(kQwenBegins, R"("dual_chunk_attention_config": {"chunk_size": 262144})",
             "attention in dual chunks (dual_chunk_attention_config) has no kernel"),
    unserved(kQwenBegins, R"("attn_logit_softcapping": 30.5)",
             "attention with a cap on its logits (attn_logit_softcapping) that is no whole number has no kernel"),
    unserved(kQwenBegins, R"("v_head_dim": 64)", "keys of 128 elements and values of 64 have no kernel"),
    unserved(kQwenBegins, R"("num_heads": 8)",
             "num_attention_heads and num_heads are names of one thing and have different values"),
    unserved("", R"("model_type": "minimax")", "it lacks layer_types, and its layers are of several kinds"),
    unserved(kMixtralBegins, R"("layer_types": ["indexed_attention", "indexed_attention", "indexed_attention",
 "indexed_attention", "indexed_attention", "indexed_attention", "indexed_attention", "indexed_attention",
 "indexed_attention", "indexed_attention", "indexed_attention", "indexed_attention"])",
             "12 layers of indexed_attention have no kernel"),
    // A known rule in a form that it does not have, or of a name that is not known, is not passed over.
    unserved(kMixtralBegins, R"("sliding_window_pattern": [true, false], "sliding_window": 64)",
             "sliding_window_pattern is not understood"),
    unserved(kMixtralBegins, R"("layer_types": "full_attention")", "layer_types is not understood"),
    {R"("model_type": "mixtral", "hybrid_override_pattern": ["M", "*"])",  // which says the layers with experts, too
     {},
     {"hybrid_override_pattern is not understood"}},
    unserved(kMixtralBegins, R"("block_configs": [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {"attention": null}])",
             "block_configs is not understood"),
    unserved(kMixtralBegins, R"("kv_heads_each": [4, 4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8])",
             "kv_heads_each is not understood"),
    unserved(kMixtralBegins, R"("mamba_d_state": 16, "mb_per_layer": 2)", "mamba_d_state is not understood"),
    unserved(kMixtralBegins, R"("local_attention": 128)", "local_attention is not understood"),
    {R"("model_type": "mixtral", "layer_types": ["sliding_attention", "full_attention", "mlp", "mlp", "mlp", "mlp",
 "mlp", "mlp", "mlp", "mlp", "mlp", "mlp"])",
     {"1 decode_attention", "12 router experts=64,top_k=6,score=softmax"},
     {"decode and prefill of 1 layers: sliding_window does not say"}},
};

}  // namespace

TEST_CASE("fields that say which layers attend how") { check_rules(kAttentionRules); }

TEST_CASE("what is not understood of attention is named, and the experts are served all the same") {
  check_rules(kUnknownAttention);
}

TEST_CASE("fields that say which layers have experts") {
  const auto rule = [](const char* fields, const char* router) {
    return FieldRule{R"("model_type": "mixtral", )" + std::string(fields), {"12 decode_attention", router}, {}};
  };
  check_rules({
      rule(
          R"("mlp_layer_types": ["dense", "dense", "sparse", "sparse", "sparse", "sparse", "moe", "moe", "moe", "moe",
 "moe", "moe"])",
          "10 router"),
      rule(R"("moe_layer_freq": [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1])", "9 router"),
      rule(R"("moe_layers": [1, 3, 5])", "3 router"),
      rule(R"("is_moe_layer": [false, true, true, true, true, true, true, true, true, true, true, true])", "11 router"),
      rule(R"("moe_layers_enum": "4,5,6,7,8,9,10,11")", "8 router"),
      rule(R"("moe_layers_enum": "4,5,11,12", "num_nextn_predict_layers": 1)", "3 router"),
      rule(R"("interleave_moe_layer_step": 3)", "4 router"),
      rule(R"("first_k_dense_replace": 2, "moe_layer_freq": 2)", "5 router"),
      rule(R"("num_dense_layers": 3)", "9 router"),
      rule(R"("moe_layer_start_index": 2, "moe_layer_end_index": 9, "moe_layer_interval": 2)", "4 router"),
      rule(R"("moe_layer_start_index": [1, 3], "moe_layer_end_index": [12, 9])", "11 router"),
      rule(R"("moe_layer_start_index": 1, "moe_layer_end_index": -1)", "11 router"),
      rule(R"("moe_layer_num_skipped": 1)", "11 router"),
      rule(R"("expert_layer_period": 3, "expert_layer_offset": 2)", "4 router"),
      rule(R"("decoder_sparse_step": 2, "mlp_only_layers": [1])", "5 router"),
      rule(R"("moe_layer_frequency": 4)", "3 router"),
  });
  check_rules({
      {R"("model_type": "mixtral", "mlp_layer_types": ["dense", "odd", "sparse", "sparse", "sparse", "sparse", "moe",
 "moe", "moe", "moe", "moe", "moe"])",
       {"12 decode_attention"},
       {"no workload moves tokens to its experts: mlp_layer_types has 'odd', which is not known"}},
      {R"("model_type": "mixtral", "expert_depths": [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2])",
       {"12 decode_attention"},
       {"expert_depths is not understood"}},
      {R"("model_type": "mixtral", "moe_every_other_layers": 2)",
       {"12 decode_attention"},
       {"moe_every_other_layers is not understood"}},
      {R"("model_type": "mixtral", "moe_layers_range": [1, 11])",
       {"12 decode_attention"},
       {"moe_layers_range is not understood"}},
      {R"j("model_type": "mixtral", "moe_layer_freq": "([0]*1+[1]*11)")j",
       {"12 decode_attention"},
       {"moe_layer_freq is not understood"}},
      {R"("model_type": "mixtral", "n_routed_experts": 32)",
       {"12 decode_attention"},
       {"num_experts and n_routed_experts are names of one thing and have different values"}},
      {R"("model_type": "deepseek_v4", "mlp_layer_types": ["hash_moe", "hash_moe", "hash_moe", "moe", "moe", "moe",
 "moe", "moe", "moe", "moe", "moe", "moe"])",
       {"9 router"},
       {"the tokens of 3 layers choose experts by their ids", "compressed entries"}},
      {R"("model_type": "deepseek_v4", "num_hash_layers": 3)",
       {"9 router"},
       {"the tokens of 3 layers choose experts by their ids", "compressed entries"}},
  });
}
