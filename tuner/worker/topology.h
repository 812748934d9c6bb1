// The places of a machine's GPUs: their NUMA nodes, and what lies between each two of them. Read by the worker from the
// driver, NVML and /sys; what these do not say is unknown.
//
// Plain data and pure functions, but for read_topology(), which runs in the worker after cuda::initialize().
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tuner/worker/numa.h"

namespace moetune {

struct Topology {
  struct Place {  // of a GPU
    std::optional<int> numa_node;
    std::optional<int> nvlinks;  // that are up
  };
  struct Pair {
    std::size_t from = 0, to = 0;  // positions in the list, from < to
    std::string path;              // as nvidia-smi names it: "NV18", "PIX", "SYS"; "" if unknown
    std::optional<int> nvlinks;    // between the two, directly or through switches
    bool peer_access = false;      // each may read and write what is on the other
  };

  std::vector<Place> places;  // by GPU, as the driver lists them
  std::vector<Pair> pairs;
  std::vector<NumaNode> nodes;  // empty if unknown
};

Topology read_topology();

void to_json(nlohmann::json& json, const Topology& topology);
void from_json(const nlohmann::json& json, Topology& topology);

}  // namespace moetune
