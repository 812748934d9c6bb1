// Facts of model families beyond the fields of their configurations: how they score their experts, and the parts that
// no kernel serves. One row serves families that are alike. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace moetune {

// How a family's experts compute, if not down(silu(gate(x)) * up(x)) with weights as nn.Linear has them. gpt-oss' clamp
// gate and up, whose rows take turns, and add biases; without mxfp4 their weights are N-major.
struct ExpertMath {
  std::string_view types;
  std::string_view why_other;     // empty: it is that
  bool has_width_of_all = false;  // intermediate_size is theirs
  bool as_gpt_oss = false;
};

// The operations between a family's large products, as SmallOperations names them.
struct SmallMath {
  std::string_view types;
  bool turns_halves = true, head_norms = false;
  // Whether q, k and v have biases: as this field says, if it is there.
  std::string_view bias_field = {};
  bool biased = false;
  bool out_as_qkv = false, router_biased = false;
};

// Whether a family does something: always or never, or if a field says so, which it may lack.
enum class Does { never, always, unless_denied, if_said };

// How a token chooses its experts.
struct RoutingStyle {
  std::string_view score;   // as the router names it; empty if it is not known
  std::string_view logits;  // their type; empty for that of activations
  Does bias = Does::never, renormalize = Does::unless_denied;
};

struct ModelFamily {
  std::string_view types;  // values of model_type, with blanks between
  RoutingStyle routing;
  std::string_view choice, attention;  // of experts, and over tokens: why no kernel serves it
  std::string_view beside;             // what it has beside that, which no workload has
  bool sinks = false;                  // every query head has a learned one
  // The layers are of several kinds. Without a field that says which, `kinds` is taken to be `interval`; if `kinds` is
  // empty too, it is not known.
  bool mixed = false;
  std::string_view kinds;
  std::int64_t interval = 0;
};

// By a value of model_type, or what it is without "_text" or with it. nullptr if the family is not known.
const ModelFamily* find_model_family(std::string_view type);

// That of a known family.
ExpertMath expert_math(std::string_view type);

// nullptr if it is not known.
const SmallMath* find_small_math(std::string_view type);

}  // namespace moetune
