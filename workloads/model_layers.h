// Finds a model's layers: which attend and how, and which have experts. Pure functions. Throws NotUnderstood if the
// fields that say so are not known; BadInput that names file, line and key if one is damaged.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "workloads/model_families.h"
#include "workloads/model_fields.h"

namespace moetune {

inline constexpr const char *kFullAttention = "full_attention", *kSlidingAttention = "sliding_attention",
                            *kChunkedAttention = "chunked_attention";

// A layer's attention.
struct ModelLayer {
  std::string kind;  // one of the above, or another that no kernel serves; empty for a layer without attention
  std::int64_t q_heads = 0, kv_heads = 0;
  std::int64_t head_dim = 0;   // 0: hidden size over heads
  std::int64_t value_dim = 0;  // 0: as keys
  std::int64_t latent = 0;     // elements of a compressed latent
  std::int64_t window = 0;     // of sliding attention: tokens that a token sees; of chunked attention: of a chunk
  std::int64_t softcap = 0;    // bound of scaled scores; 0: none
  bool sinks = false;

  auto operator<=>(const ModelLayer&) const = default;
};

// How many layers the model has, which the lists of kinds say if nothing else does.
std::int64_t count_model_layers(const ModelFields& fields);
std::vector<ModelLayer> attention_of_layers(const ModelFields& fields, const ModelFamily* family, std::int64_t layers);

struct ExpertLayerCount {
  std::int64_t layers = 0;
  std::int64_t unrouted = 0;  // of these: layers whose tokens choose experts by their ids
};
ExpertLayerCount count_expert_layers(const ModelFields& fields, std::int64_t layers);

// Whether it has an encoder beside the decoder.
bool has_encoder(const ModelFields& fields);

}  // namespace moetune
