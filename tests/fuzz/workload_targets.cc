// workloads.json and models' config.json: read or refused, and what was read is written as it was read.
#include "base/error.h"
#include "kernels/server_workloads.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"
#include "workloads/model_config.h"
#include "workloads/workload_list.h"

namespace moetune::fuzz {
namespace {

class WorkloadsTarget : public Target {
 public:
  explicit WorkloadsTarget(Mutator mutator) : mutator_(std::move(mutator)) {}
  std::string make(Random& random) override { return mutator_.make(random); }

  void run(const std::string& input) override {
    if (input.find("num_hidden_layers") == std::string::npos) {
      const WorkloadList list = parse_workloads(input, "fuzz.json");
      for (const TuningPoint& point : points_of(list))
        if (!(point.weight > 0)) throw Finding("a shape weighs nothing");
      if (parse_workloads(workloads_text(list), "again.json").entries != list.entries)
        throw Finding("a list reads differently from what it writes");
      return;
    }
    const ModelFacts facts = parse_model_config(input, "fuzz.json").facts;
    check_list(plan_model(facts, {}));
    for (const std::string& server : server_names()) check_list(plan_server(facts, {.server = server}));
  }

 private:
  static void check_list(const ModelPlan& plan) {
    WorkloadList list;
    for (const ModelWorkload& one : plan.workloads)
      list.entries.push_back({.kernel = one.kernel, .problem = one.problem, .ranges = one.ranges});
    try {
      parse_workloads(workloads_text(list), "made.json");
    } catch (const BadInput& error) {
      throw Finding(std::string("a model's list cannot be read: ") + error.what());
    }
  }

  const Mutator mutator_;
};

constexpr const char* kList = R"json({"moetune_workloads": 1, "workloads": [
 {"name": "a", "kernel": "router", "preset": "kimi-k2", "ranges": {"tokens": "1..16k"}, "weight": 2.5},
 {"kernel": "prefill_attention", "ranges": {"seqlen_q": "1..4096", "seqlen_kv": 4096}},
 {"kernel": "moe_combine", "problem": "hidden=2048", "shapes": ["tokens=1", {"problem": "tokens=64", "weight": 3}]}]})json";
constexpr const char* kConfig =
    R"json({"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 4,
 "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
 "max_position_embeddings": 40960, "sliding_window": 128, "torch_dtype": "bfloat16", "norm_topk_prob": true,
 "layer_types": ["full_attention", "sliding_attention", "full_attention", "linear_attention"], "n_group": 8,
 "topk_group": 4, "scoring_func": "sigmoid", "quantization_config": {"quant_method": "fp8"}})json";
constexpr const char* kOldConfig =
    R"json({"model_type": "jamba", "text_config": {"model_type": "llama4_text", "d_model": 2048, "num_hidden_layers": 4,
 "n_heads": 32, "attn_config": {"kv_n_heads": 4}, "moe_num_experts": [64, 64], "moe_k": 6, "moe_layers_enum": "1,2",
 "no_rope_layers": [1, 1, 0, 1], "attention_chunk_size": 8192, "attn_layer_period": 2, "attn_layer_offset": 1,
 "hybrid_override_pattern": "M*E-", "sliding_window_pattern": "LG", "sliding_window": [null, 512],
 "per_layer_config": {"02": {"head_dim": 64}}, "moe_layer_start_index": [1, 1], "decoder_sparse_step": 2,
 "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192},
 "topk_method": "noaux_tc", "limit": [0.0, Infinity]}})json";

}  // namespace

std::unique_ptr<Target> workloads_target(const Folder&) {
  return std::make_unique<WorkloadsTarget>(Mutator({kList, kConfig, kOldConfig}, {"\"ranges\"",
                                                                                  "\"shapes\"",
                                                                                  "..",
                                                                                  "128k",
                                                                                  "1m",
                                                                                  "null",
                                                                                  "\"weight\"",
                                                                                  "1e12",
                                                                                  "\"kernel\"",
                                                                                  "decode_attention",
                                                                                  "num_hidden_layers",
                                                                                  "\"kv_lora_rank\": 512",
                                                                                  "\"text_config\"",
                                                                                  "NaN",
                                                                                  "-Infinity",
                                                                                  "\"attn_type_list\"",
                                                                                  "\"layer_types\"",
                                                                                  "\"mlp_layer_types\"",
                                                                                  "[]",
                                                                                  "\"mixtral\""}));
}

}  // namespace moetune::fuzz
