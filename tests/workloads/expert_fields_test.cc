// Fields that say how many experts there are, how a token chooses them, and what is sent to them.
#include "base/error.h"
#include "tests/workloads/read_config.h"

using namespace moetune;
using namespace moetune::testing;

TEST_CASE("names of counts, and a list of equal numbers") {
  const auto read = [](const std::string& fields) {
    return lines_of(parse_model_config(
        R"({"model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 2048, "num_attention_heads": 16, )" +
            fields + "}",
        "c.json"));
  };
  for (const char* experts :
       {"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "num_routed_experts"}) {
    for (const char* top_k : {"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk",
                              "moe_top_k", "moe_k", "top_k_experts", "num_selected_experts"}) {
      CAPTURE(experts);
      CAPTURE(top_k);
      const std::string text = std::string("\"") + experts + "\": 64, \"" + top_k + "\": 8";
      check_starts(read(text).lines, {"4 decode", "4 router experts=64,top_k=8,", "4 moe_dispatch"});
    }
  }
  check_starts(read(R"("num_experts": [64, 64], "moe_topk": [8, 8, 8, 8])").lines,
               {"4 decode", "4 router experts=64,top_k=8,", "4 moe_dispatch"});
  const ReadModel mixed = read(R"("num_experts": 64, "moe_topk": [8, 8, 4, 8])");
  check_starts(mixed.lines, {"4 decode"});
  check_notes(mixed.notes, {"moe_topk is not the same number for every layer"});
  const ReadModel none = read(R"("num_experts": 64)");
  check_starts(none.lines, {"4 decode"});
  check_notes(none.notes, {"how many of its 64 experts a token gets is not said"});
}

TEST_CASE("a model that counts its experts under another name is not said to have none") {
  const auto notes = [](const std::string& fields) {
    const std::string layers =
        R"({"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 2048, "num_attention_heads": 16, )";
    return lines_of(parse_model_config(layers + fields + "}", "c.json")).notes;
  };
  const std::string left_out = "no workload moves tokens to its experts: ";
  check_notes(notes(R"("n_experts": 64)"), {left_out + "n_experts is not understood"});
  check_notes(notes(R"("expert_count": [64, 64, 64, 64])"), {left_out + "expert_count is not understood"});
  check_notes(notes(R"("moe_config": {"num_experts": 64})"), {left_out + "moe_config.num_experts is not understood"});
  const std::string none = "it has no experts";
  for (const char* dense : {R"("num_experts": 0, "num_experts_per_tok": 2)", R"("num_local_experts": 1)",
                            R"("n_experts": null, "expert_parallel": 1, "experts_implementation": "eager")"})
    check_notes(notes(dense), {none});
}

TEST_CASE("how a token chooses its experts") {
  const std::string shape = "12 router experts=64,top_k=6,";
  const auto rule = [&](const std::string& fields, const std::string& router) {
    return FieldRule{fields, {"12 decode_attention", shape + router}, {}};
  };
  check_rules({
      rule(R"("model_type": "minimax_m2", "use_routing_bias": false)", "score=sigmoid,dtype=fp32"),
      rule(
          R"("model_type": "lfm2_moe", "use_expert_bias": true, "attn_layer_indices": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
 10, 11])",
          "score=sigmoid,dtype=bf16,bias=correction"),
      rule(R"("model_type": "bailing_moe_v2", "moe_router_enable_expert_bias": false, "n_group": 8, "topk_group": 4)",
           "score=sigmoid,dtype=fp32,groups=8,groups_kept=4"),
      rule(R"("model_type": "ernie4_5_moe", "moe_use_aux_free": false)", "score=softmax,dtype=fp32"),
      rule(R"("model_type": "cohere2_moe", "expert_selection_fn": "softmax")", "score=topk_softmax,dtype=bf16"),
      rule(R"("model_type": "cohere2_moe", "expert_selection_fn": "sigmoid")", "score=sigmoid,dtype=bf16"),
      rule(R"("model_type": "bailing_moe_v2", "score_function": "sigmoid", "router_dtype": "fp32")",
           "score=sigmoid,dtype=fp32,bias=correction"),
      rule(R"("model_type": "deepseek_v2", "topk_method": "greedy", "n_group": 8, "topk_group": 3)",
           "score=softmax,dtype=fp32,renormalize=no"),
      rule(R"("model_type": "deepseek_v3", "scoring_func": "softmax", "topk_method": "greedy")",
           "score=softmax,dtype=fp32"),
      rule(R"("model_type": "deepseek_v3", "norm_topk_prob": false)",
           "score=sigmoid,dtype=fp32,bias=correction,renormalize=no"),
      rule(R"("model_type": "olmoe")", "score=softmax,dtype=bf16,renormalize=no"),
      rule(R"("model_type": "afmoe", "route_norm": true, "score_func": "sigmoid")",
           "score=sigmoid,dtype=fp32,bias=correction"),
      rule(R"("model_type": "step3_text", "norm_expert_weight": false)", "score=softmax,dtype=bf16,renormalize=no"),
      rule(R"("model_type": "granitemoe")", "score=topk_softmax,dtype=bf16"),
      {R"("model_type": "jetmoe")",
       {"12 decode_attention", shape + "score=topk_softmax,dtype=bf16"},
       {"its attention chooses experts, too"}},
      rule(R"("model_type": "qwen3_vl_moe_text")", "score=softmax,dtype=bf16"),
  });
}

TEST_CASE("a router that would be another than the model's is left out") {
  const auto left_out = [](const std::string& fields, const std::string& note) {
    return FieldRule{fields, {"12 decode_attention"}, {"router: " + note}};
  };
  check_rules({
      left_out(R"("model_type": "deepseek_v3", "scoring_func": "softmax")",
               "whether a bias corrects the selection is not said"),
      left_out(R"("model_type": "qwen3_moe", "scoring_func": "entmax")", "the scoring function is not known"),
      left_out(R"("model_type": "deepseek_v2", "topk_method": "group_limited_greedy", "n_group": 8, "topk_group": 3)",
               "groups are ranked by their best expert"),
      left_out(R"("model_type": "deepseek_v3", "topk_method": "by_tea_leaves")", "topk_method is not known"),
      left_out(R"("model_type": "mixtral", "router_dtype": "fp4")", "logits of an unknown type"),
      left_out(R"("model_type": "phimoe")", "each expert is chosen by logits close to the best"),
      left_out(R"("model_type": "kolibri1", "sliding_window": 513, "layer_types": ["full_attention",
 "full_attention", "full_attention", "full_attention", "full_attention", "full_attention", "full_attention",
 "full_attention", "full_attention", "full_attention", "full_attention", "full_attention"])",
               "its bias is added to the logits"),
  });
}

TEST_CASE("of a family that is not known its fields must say how a token chooses") {
  const std::string shape = "12 router experts=64,top_k=6,";
  const auto unknown = [&](const std::string& fields, const std::string& router, const std::string& note) {
    const ReadModel read = lines_of(parse_model_config(model(R"("model_type": "new", )" + fields), "c.json"));
    std::vector<std::string> starts = {"12 decode_attention", "12 moe_dispatch"},
                             notes = {"'new' is not known", "contexts end at"};
    if (!router.empty()) starts.insert(starts.begin() + 1, shape + router);
    if (!note.empty()) notes.push_back("router: " + note);
    check_starts(read.lines, starts);
    check_notes(read.notes, notes);
  };
  const std::string sigmoid = R"("scoring_func": "sigmoid")", norm = R"("norm_topk_prob": true)";
  unknown(sigmoid + R"(, "n_group": 4, "topk_group": 2)", "", "how it ranks groups of experts is not known");
  unknown(sigmoid + ", " + norm, "", "whether a bias corrects the selection is not said");
  unknown(R"("scoring_func": "softmax")", "", "whether weights are divided by their sum is not said");
  unknown(norm, "", "how this model scores its experts is not known");
  unknown(sigmoid + ", " + norm + R"(, "use_expert_bias": false)", "score=sigmoid,dtype=bf16", "");
  unknown(sigmoid + ", " + norm + R"(, "topk_method": "noaux_tc", "n_group": 4, "topk_group": 2)",
          "score=sigmoid,dtype=bf16,bias=correction,groups=4,groups_kept=2", "");
}

TEST_CASE("what tokens are sent as follows from the quantization") {
  const auto sent = [](const std::string& fields) {
    const ReadModel read = lines_of(parse_model_config(model(R"("model_type": "mixtral", )" + fields), "c.json"));
    const std::string line = read.lines.back();
    const bool is_noted = std::any_of(read.notes.begin(), read.notes.end(), [](const std::string& note) {
      return note.starts_with("moe_dispatch sends bf16");
    });
    return line.substr(line.find("top_k=6") + 7) + (is_noted ? " noted" : "");
  };
  const auto tensors = [](const std::string& inputs) {
    return R"("quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {},
 "input_activations": )" +
           inputs + "}}}";
  };
  const std::vector<std::pair<std::string, std::string>> all = {
      {R"("torch_dtype": "bfloat16")", ""},
      {R"("quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]})", ",out=e4m3,scale=group"},
      {R"("quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 64]})", " noted"},
      {R"("quantization_config": {"quant_method": "fp8", "weight_block_size": null})", " noted"},
      {R"("quantization_config": {"quant_method": "fp8"})", " noted"},
      {R"("quantization_config": {"quant_method": "modelopt"})", " noted"},
      {R"("quantization_config": {"quant_method": "mxfp4"})", ""},
      {R"("quantization_config": {"quant_method": "awq"})", ""},
      {R"("quantization_config": {"quant_method": "fbgemm_fp8"})", ",out=e4m3,scale=token"},
      {R"("quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"})", " noted"},
      {tensors(R"({"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true})"), ",out=e4m3,scale=token"},
      {tensors(R"({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128})"), ",out=e4m3,scale=group"},
      {tensors(R"({"num_bits": 8, "type": "float", "strategy": "tensor"})"), " noted"},
      {tensors(R"({"num_bits": 8, "type": "int", "strategy": "token"})"), " noted"},
      {tensors("null"), ""},
  };
  for (const auto& [fields, right] : all) {
    CAPTURE(fields);
    CHECK(sent(fields) == right);
  }
}

TEST_CASE("experts over several GPUs") {
  const ModelConfig config = parse_model_config(model(R"("model_type": "mixtral")"), "c.json");
  const ReadModel spread = lines_of(config, {.expert_parallel = 8});
  check_starts(spread.lines,
               {"12 decode", "12 router experts=64,top_k=6,score=softmax,dtype=bf16,outputs=ranks,ranks=8",
                "12 moe_dispatch hidden=2048,experts=64,top_k=6"});
  check_notes(spread.notes,
              {"how many rows one of 8 GPUs gets depends on how tokens are exchanged", "contexts end at"});
  CHECK_THROWS_WITH_AS(lines_of(config, {.expert_parallel = 7}), "ep: expert parallel 7 does not divide 64 experts",
                       BadField);
}
