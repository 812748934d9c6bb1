// The options of moetune_bind for attention kernels: what the shapes of tensors do not tell. Pure functions;
// thread-safe.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/attention/call.h"

namespace moetune {

struct AttentionOptions {
  bool heads_first = false;                       // layout=heads_first or tokens_first
  double scale = 1;                               // scale=NUMBER
  std::optional<bool> kv_settled = std::nullopt;  // kv_settled=0 or 1; nullopt: the kernel has no such option
};

// `read` holds what is not stated. Throws BadInput, in `rules`' name, for anything else.
AttentionOptions read_attention_options(const CallRules& rules, std::string_view text, AttentionOptions read);

}  // namespace moetune
