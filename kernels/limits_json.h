// DeviceLimits as JSON: in recordings, and between the tool and its worker. Header only, for the library's
// sorted and ordered documents alike; from_json throws its exceptions. Not for headers that others include.
#pragma once

#include <nlohmann/json.hpp>

#include "kernels/limits.h"

namespace moetune {

template <typename Json>
void to_json(Json& json, const DeviceLimits& limits) {
  json = {{"compute_capability", limits.compute_capability},
          {"sm_count", limits.sm_count},
          {"shared_per_block", limits.shared_per_block},
          {"shared_per_sm", limits.shared_per_sm},
          {"registers_per_sm", limits.registers_per_sm},
          {"threads_per_sm", limits.threads_per_sm},
          {"l2_bytes", limits.l2_bytes},
          {"memory_bytes", limits.memory_bytes}};
}

template <typename Json>
void from_json(const Json& json, DeviceLimits& limits) {
  json.at("compute_capability").get_to(limits.compute_capability);
  json.at("sm_count").get_to(limits.sm_count);
  json.at("shared_per_block").get_to(limits.shared_per_block);
  json.at("shared_per_sm").get_to(limits.shared_per_sm);
  json.at("registers_per_sm").get_to(limits.registers_per_sm);
  json.at("threads_per_sm").get_to(limits.threads_per_sm);
  json.at("l2_bytes").get_to(limits.l2_bytes);
  json.at("memory_bytes").get_to(limits.memory_bytes);
}

}  // namespace moetune
