// Turns a model's layers, given as facts, into one ranged problem for each kernel and kind of layer. The one place
// that knows which kernel serves which layer. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dimension_range.h"

namespace moetune {

// Layers with equal attention.
struct AttentionLayers {
  std::int64_t q_heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t window = 0;   // tokens that a token sees; 0 for all
  std::int64_t chunk = 0;    // a token sees those of its chunk of so many; 0 for all
  std::int64_t softcap = 0;  // bound of scaled scores; 0 for none
  bool sinks = false;
  bool latent = false;      // decodes over a latent that all heads share, as mla_decode does; head_dim is not read
  std::int64_t chosen = 0;  // of a latent: tokens that are chosen for a token; 0 for all
  std::int64_t layers = 0;

  bool operator==(const AttentionLayers&) const = default;
};

// Layers whose tokens choose experts.
struct ExpertLayers {
  std::int64_t experts = 0, top_k = 0;
  std::int64_t hidden = 0;        // values of a token as it is sent to its experts
  std::int64_t zero_experts = 0;  // that a token can choose as well, and which give it back
  std::string score;              // as the router names it; empty if that is not the model's
  std::string why_unscored;       // why it is empty
  bool correction_bias = false, renormalize = true;
  std::int64_t groups = 1, groups_kept = 1;
  std::string logits;                // their dtype
  std::string sent_scale;            // of tokens sent as e4m3, as moe_dispatch names it; empty if they are sent as bf16
  std::string why_sent_plain;        // why it is empty, if the model asks for other scales
  std::int64_t intermediate = 0;     // values of a token within an expert; 0 if moe_experts is not what it computes
  std::string product_options;       // further dimensions of moe_experts: ",w=mxfp4"
  std::string why_no_products;       // why it is 0
  std::int64_t layers = 0;           // 0: the model has none
  std::int64_t unrouted_layers = 0;  // of these: layers without a router
};

// The operations between a layer's large products, if they are Llama's: RMSNorms with a weight, RoPE of whole heads.
struct SmallOperations {
  std::int64_t hidden = 0;    // values of a token; 0 if the norms are not known to be so
  bool turns_halves = false;  // RoPE turns value i together with i + head_dim / 2
  bool head_norms = false;    // query and key heads are normalized before
  bool qkv_bias = false, out_bias = false, router_bias = false;  // of the products
  std::int64_t vocabulary = 0;                                   // 0 if it is not known
};

struct ModelFacts {
  std::string name;
  std::string dtype = "bf16";  // of activations
  std::string unserved_dtype;  // for which `dtype` stands; empty if none
  std::vector<AttentionLayers> attention;
  ExpertLayers experts;
  SmallOperations small;
  std::int64_t layers = 0;
  std::string quantization;          // its method; empty for weights as activations are
  std::int64_t longest_context = 0;  // 0 if it is unknown
};

// How a server runs it.
struct ServingShape {
  std::int64_t tensor_parallel = 1;  // GPUs that share the heads
  std::int64_t expert_parallel = 1;  // GPUs over which the experts are spread
  std::int64_t batch_low = 1, batch_high = 256;
  std::int64_t context_low = 512, context_high = 131072;
  std::int64_t page = 64;  // tokens a KV page; 0 for contiguous KV
};

struct ModelWorkload {
  std::string name, kernel;
  std::string problem;  // the dimensions that are no ranges
  std::vector<DimensionRange> ranges;
  double weight = 1;  // launches a step
};

struct ModelPlan {
  std::vector<ModelWorkload> workloads;
  std::vector<std::string> notes;  // what cannot be served, and what was cut; a sentence each
};

// Throws BadField: tp or ep if they do not divide the heads or the experts, batch or context for a range that a kernel
// does not take.
ModelPlan plan_model(const ModelFacts& model, const ServingShape& serving);

// The parts of it that plans for servers share (kernels/server_workloads.h). Throws as it does.
inline constexpr std::int64_t kMostPrefillTokens = 16384;  // of one sequence; servers cut longer prompts
ServingShape within_model(const ModelFacts& model, ServingShape serving, ModelPlan& plan);
AttentionLayers heads_of_rank(AttentionLayers layers, std::int64_t ranks);
void require_divided_experts(const ExpertLayers& experts, std::int64_t ranks);
// Returns whether the kernel takes it; else a note says why not.
bool add_workload(ModelPlan& plan, ModelWorkload workload, std::int64_t layers);

}  // namespace moetune
