// The order of rows once every token has its experts: the counts, offsets and permutations that the router writes and
// that moe_dispatch and moe_combine read (docs/router.md has the layouts).
//
// Plain values and pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace moetune {

// A slot is one of a token's `top_k` choices: slot token * top_k + j.
struct RoutingSizes {
  std::int64_t tokens = 1, experts = 1, top_k = 1;
  std::int64_t align = 1;     // each expert's segment begins at a multiple of it
  std::int64_t capacity = 0;  // slots that an expert takes, in percent of the even share; 0 for all
  std::int64_t segment = 0;   // places of every expert's segment; 0 for as many as it needs, padded

  std::int64_t slots() const { return tokens * top_k; }
  // Room for every segment padded to `align`: no routing needs more. A multiple of `align`, unless segments are equal.
  std::int64_t places() const;
  // Slots that an expert takes: `capacity` percent of the even share, rounded up. As many as there are if 0, and no
  // more than a segment's places.
  std::int64_t slots_of_expert() const;
};

struct RoutingPlan {
  std::vector<std::int32_t> counts;         // [experts]: slots taken
  std::vector<std::int32_t> offsets;        // [experts + 1]: where segments begin
  std::vector<std::int32_t> sorted;         // [places]: slots in the order of experts; slots() for padding
  std::vector<std::int32_t> inverse;        // [slots]: the place of each slot; -1 if it is dropped
  std::vector<std::int32_t> block_experts;  // [places / align]: whose segment it is; -1 behind the last. None of equal
                                            // segments
  std::vector<std::int32_t> row_experts;    // [places]: whose slot is there; -1 for nobody's
};

// `ids` [slots] are experts, or -1 for none. Slots of one expert keep their order; those beyond its room are dropped.
RoutingPlan plan_routing(const RoutingSizes& sizes, std::span<const std::int32_t> ids);

// Experts [slots], those of a token all different, drawn with the load that `skew` names: "uniform", "zipf" or "one"
// (every token has expert 0). The same for the same arguments, on every machine.
std::vector<std::int32_t> draw_experts(const RoutingSizes& sizes, std::string_view skew, std::uint64_t seed);

// How many of the experts such a draw chooses, on average. Of "zipf" an estimate from below: a token's choices are
// counted as if it could choose an expert twice.
double expected_experts(const RoutingSizes& sizes, std::string_view skew);

}  // namespace moetune
