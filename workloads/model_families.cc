#include "workloads/model_families.h"

#include <algorithm>
#include <array>
#include <string>

namespace moetune {
namespace {

using enum Does;

constexpr RoutingStyle kSoftmaxShares{"softmax", "", never, always};
constexpr RoutingStyle kSoftmax{"softmax", "", never, unless_denied};
constexpr RoutingStyle kSoftmaxAsIs{"softmax", "", never, if_said};
constexpr RoutingStyle kSoftmaxOfSelected{"topk_softmax", "", never, always};
constexpr RoutingStyle kSigmoid{"sigmoid", "fp32", always, unless_denied};

// Sources: the modeling files of transformers 5 and vLLM's models.
constexpr auto kFamilies = std::to_array<ModelFamily>({
    // No experts.
    {.types =
         "llama mistral qwen2 qwen3 olmo2 phi3 seed_oss arcee apertus ernie4_5 glm4 internlm3 granite hunyuan_v1_dense "
         "smollm3"},
    {.types = "bert roberta xlm-roberta camembert modernbert distilbert electra albert deberta deberta-v2 nomic_bert",
     .attention = "attention to tokens behind a token"},
    {.types = "bloom", .attention = "attention with a bias by distance"},
    {.types = "gemma2", .mixed = true, .kinds = "sliding_window_pattern", .interval = 2},
    {.types = "gemma3 gemma3_text", .mixed = true, .kinds = "sliding_window_pattern", .interval = 6},
    {.types = "cohere2 exaone4 olmo3", .mixed = true, .kinds = "sliding_window_pattern", .interval = 4},
    {.types = "qwen3_5_text", .mixed = true, .kinds = "full_attention_interval", .interval = 4},
    {.types = "mamba mamba2 falcon_mamba bamba zamba zamba2 lfm2 recurrent_gemma falcon_h1", .mixed = true},

    // A softmax over all experts.
    {.types = "mixtral arctic hunyuan hunyuan_v1_moe minicpm qwen3_vl_moe_text qwen3_omni_moe_text mistral_params",
     .routing = kSoftmaxShares},
    {.types = "minimax", .routing = kSoftmaxShares, .mixed = true},
    {.types = "minimax_text_01 minimax_m1", .routing = {"softmax", "fp32", never, always}, .mixed = true},
    {.types = "qwen3_5_moe_text",
     .routing = kSoftmaxShares,
     .mixed = true,
     .kinds = "full_attention_interval",
     .interval = 4},
    {.types = "qwen3_next", .routing = kSoftmax, .mixed = true, .kinds = "full_attention_interval", .interval = 4},
    {.types = "qwen4_exp_text lara_mini", .routing = kSoftmax, .mixed = true},
    {.types = "dbrx bailing_moe mellum mistral4 mistral_large4_text", .routing = kSoftmax},
    {.types = "qwen2_moe qwen3_moe qwen3_omni_moe_talker_text olmoe flex_olmo step3_text", .routing = kSoftmaxAsIs},
    {.types = "jamba", .routing = {"softmax", "", never, never}, .mixed = true},
    {.types = "deepseek deepseek_v2 deepseek_vl_v2 deepseek_ocr2_text", .routing = {"softmax", "fp32", never, if_said}},
    {.types = "ernie4_5_moe ernie4_5_moe_vl ernie4_5_vl_moe_text",
     .routing = {"softmax", "fp32", unless_denied, always}},
    {.types = "longcat_flash", .routing = {"softmax", "fp32", always, never}},
    {.types = "gemma4_text",
     .routing = kSoftmaxShares,
     .mixed = true,
     .kinds = "sliding_window_pattern",
     .interval = 6},
    {.types = "diffusion_gemma_text",
     .routing = kSoftmaxShares,
     .attention = "attention among all tokens of a canvas",
     .mixed = true},
    {.types = "unlimited_ocr_text", .routing = {"softmax", "fp32", never, if_said}},

    // A softmax over the selected.
    {.types = "gpt_oss",
     .routing = kSoftmaxOfSelected,
     .sinks = true,
     .mixed = true,
     .kinds = "sliding_window_pattern",
     .interval = 2},
    {.types = "granitemoe granitemoeshared aria_text aria_moe_lm cohere2_moe", .routing = kSoftmaxOfSelected},
    {.types = "granitemoe_swa", .routing = kSoftmaxOfSelected, .sinks = true},
    {.types = "granitemoehybrid", .routing = kSoftmaxOfSelected, .mixed = true},
    {.types = "jetmoe",
     .routing = kSoftmaxOfSelected,
     .beside = "its attention chooses experts, too, which has no workload"},
    {.types = "openai_privacy_filter",
     .routing = kSoftmaxOfSelected,
     .attention = "attention to tokens behind a token"},

    // Sigmoids, most with a bias for the selection alone.
    {.types = "deepseek_v3 deepseek_v32 kimi_k2 kimi_k25 axk1 axk2 glm4_moe glm4_moe_lite glm4v_moe_text glm_moe_dsa "
              "exaone_moe beam hy_v4 hy_v4_vl_text mimo_v2_flash sarvam_mla sarvam_moe solar_open pangu_ultra_moe "
              "dots3_note_text",
     .routing = kSigmoid},
    {.types = "kimi_linear nemotron_h bailing_hybrid bailing_moe_linear glm5_next_text",
     .routing = kSigmoid,
     .mixed = true},
    {.types = "dots1", .routing = {"sigmoid", "fp32", always, if_said}},
    {.types = "bailing_moe_v2", .routing = {"sigmoid", "fp32", unless_denied, unless_denied}},
    {.types = "minimax_m2 minimax_m3_vl_text step3p5", .routing = {"sigmoid", "fp32", unless_denied, always}},
    {.types = "afmoe", .routing = kSigmoid, .mixed = true, .kinds = "global_attn_every_n_layers", .interval = 4},
    {.types = "hy_v3 laguna muse_spark_text", .routing = {"sigmoid", "fp32", always, always}},
    {.types = "lfm2_moe", .routing = {"sigmoid", "", unless_denied, unless_denied}, .mixed = true},
    {.types = "flint", .routing = {"sigmoid", "fp32", never, unless_denied}, .sinks = true},
    {.types = "llama4_text",
     .routing = {"sigmoid", "", never, never},
     .mixed = true,
     .kinds = "no_rope_layer_interval",
     .interval = 4},
    {.types = "deepseek_v4",
     .routing = {"sqrt_softplus", "fp32", always, always},
     .attention = "attention over compressed entries beside a window"},

    // Families whose router is another one.
    {.types = "phimoe", .choice = "each expert is chosen by logits close to the best (SparseMixer)"},
    {.types = "zaya",
     .choice = "one of its choices is to skip the experts",
     .attention = "attention whose keys and values are convolved"},
    {.types = "inkling_text inkling2_text inkling2_loop_text",
     .choice = "weights of shared experts belong to the sum",
     .attention = "attention with a learned bias by distance"},
    {.types = "kolibri1", .choice = "its bias is added to the logits and not to the scores", .mixed = true},
    {.types = "doge", .choice = "experts are products of two keys", .attention = "attention with a learned mask"},
    {.types = "nllb-moe switch_transformers", .choice = "experts drop the tokens beyond their capacity"},
});

constexpr auto kExpertMath = std::to_array<ExpertMath>(
    {{.types = "mixtral arctic minicpm minimax minimax_text_01 minimax_m1 minimax_m2 granitemoe granitemoeshared "
               "granitemoe_swa granitemoehybrid cohere2_moe flex_olmo hunyuan hunyuan_v1_moe jamba olmoe phimoe",
      .has_width_of_all = true},
     {.types = "deepseek_v4 glm5_next_text hy_v4 hy_v4_vl_text step3p5", .why_other = "gate and up are clamped"},
     {.types = "gpt_oss", .has_width_of_all = true, .as_gpt_oss = true},
     {.types = "openai_privacy_filter minimax_m3_vl_text",
      .why_other = "gate and up are clamped, and joined in a way of their own"},
     {.types = "inkling2_text inkling2_loop_text", .why_other = "gate and up have a soft bound"},
     {.types = "aria_text aria_moe_lm", .why_other = "K of their weights does not come last"},
     {.types = "llama4_text", .why_other = "tokens are weighted before their experts"},
     {.types = "muse_spark_text", .why_other = "their outputs are normalized"},
     {.types = "jetmoe", .why_other = "their sum has a bias"},
     {.types = "longcat_flash", .why_other = "some of them give a token back"}});

// Sources: transformers' modeling files. Whose forward between product and cache moetune.transformers does not know
// turns no halves (python/moetune/_small.py).
constexpr auto kSmallMath = std::to_array<SmallMath>(
    {{.types = "mistral mixtral"},
     {.types = "llama", .bias_field = "attention_bias", .out_as_qkv = true},
     {.types = "qwen2_moe", .bias_field = "qkv_bias", .biased = true},
     {.types = "gpt_oss", .bias_field = "attention_bias", .biased = true, .out_as_qkv = true, .router_biased = true},
     {.types = "qwen3 qwen3_moe", .head_norms = true, .bias_field = "attention_bias", .out_as_qkv = true},
     {.types = "qwen2", .turns_halves = false, .biased = true}});

bool lists(std::string_view types, std::string_view type) {
  for (std::size_t at = types.find(type); at != std::string_view::npos; at = types.find(type, at + 1)) {
    const std::size_t end = at + type.size();
    if ((at == 0 || types[at - 1] == ' ') && (end == types.size() || types[end] == ' ')) return true;
  }
  return false;
}

// The row of a model type, or of the language model of such a one, which may be named with "_text" or without.
template <typename Rows>
auto find_row(const Rows& rows, std::string_view type) -> decltype(rows.data()) {
  if (type.empty() || type.find(' ') != std::string_view::npos) return nullptr;
  const std::string text = std::string(type) + "_text";
  const std::string_view whole = type.ends_with("_text") ? type.substr(0, type.size() - 5) : type;
  for (const std::string_view name : {type, std::string_view(text), whole}) {
    for (const auto& row : rows)
      if (lists(row.types, name)) return &row;
  }
  return nullptr;
}

}  // namespace

const ModelFamily* find_model_family(std::string_view type) { return find_row(kFamilies, type); }

ExpertMath expert_math(std::string_view type) {
  const ExpertMath* const found = find_row(kExpertMath, type);
  return found == nullptr ? ExpertMath{} : *found;
}

const SmallMath* find_small_math(std::string_view type) { return find_row(kSmallMath, type); }

}  // namespace moetune
