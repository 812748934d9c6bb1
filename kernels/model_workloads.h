// What a model asks of the kernels: its layers as facts, and from them one ranged problem a kernel and kind of layer.
// The one place that knows which kernel serves which layer. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dimension_range.h"

namespace moetune {

// Layers with equal attention.
struct AttentionLayers {
  std::int64_t q_heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t window = 0;  // tokens that a token sees; 0 for all
  bool sinks = false;
  std::int64_t layers = 0;
};

// Layers whose tokens choose experts.
struct ExpertLayers {
  std::int64_t experts = 0, top_k = 0, hidden = 0;
  std::string score;  // as the router names it; empty if it is unknown
  bool correction_bias = false, renormalize = true;
  std::int64_t groups = 1, groups_kept = 1;
  std::string logits;        // their dtype
  bool e4m3_blocks = false;  // activations of experts are e4m3 with a scale for 128 values
  std::int64_t layers = 0;   // 0: the model has none
};

struct ModelFacts {
  std::string name;
  std::string dtype = "bf16";  // of activations
  std::vector<AttentionLayers> attention;
  ExpertLayers experts;
  std::int64_t longest_context = 0;  // 0 if it is unknown
};

// How a server runs it.
struct ServingShape {
  std::int64_t tensor_parallel = 1;
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

// Throws BadInput if tensor_parallel does not divide the heads, and BadField (batch, context) for a range that a kernel
// does not take.
ModelPlan plan_model(const ModelFacts& model, const ServingShape& serving);

}  // namespace moetune
