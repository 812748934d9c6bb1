#include "tuner/worker/topology.h"

#include <deque>
#include <nlohmann/json.hpp>

#include "launch/driver.h"
#include "tuner/worker/nvml.h"

namespace moetune {
namespace {

nlohmann::json number_json(const std::optional<int>& number) {
  return number ? nlohmann::json(*number) : nlohmann::json(nullptr);
}

std::optional<int> number_of(const nlohmann::json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<int>());
}

}  // namespace

Topology read_topology() {
  Topology topology{.nodes = numa_nodes()};
  std::deque<Nvml> nvmls;
  for (int i = 0; i < cuda::device_count(); ++i) {
    const DeviceInfo info = cuda::describe_device(i);
    const Nvml& nvml = nvmls.emplace_back(info.pci_bus_id, info.uuid);
    topology.places.push_back({numa_node_of(info.pci_bus_id), nvml.nvlinks()});
  }
  for (std::size_t to = 0; to < nvmls.size(); ++to) {
    for (std::size_t from = 0; from < to; ++from) {
      const Nvml::Path path = nvmls[from].path_to(nvmls[to]);
      const int a = static_cast<int>(from), b = static_cast<int>(to);
      topology.pairs.push_back({from, to, path.name, path.nvlinks, cuda::can_access(a, b) && cuda::can_access(b, a)});
    }
  }
  return topology;
}

void to_json(nlohmann::json& json, const Topology& topology) {
  json = {{"places", nlohmann::json::array()}, {"pairs", nlohmann::json::array()}, {"nodes", nlohmann::json::array()}};
  for (const Topology::Place& place : topology.places)
    json["places"].push_back({{"numa_node", number_json(place.numa_node)}, {"nvlinks", number_json(place.nvlinks)}});
  for (const Topology::Pair& pair : topology.pairs)
    json["pairs"].push_back({{"from", pair.from},
                             {"to", pair.to},
                             {"path", pair.path},
                             {"nvlinks", number_json(pair.nvlinks)},
                             {"peer_access", pair.peer_access}});
  for (const NumaNode& node : topology.nodes) json["nodes"].push_back({{"number", node.number}, {"cpus", node.cpus}});
}

void from_json(const nlohmann::json& json, Topology& topology) {
  for (const nlohmann::json& place : json.at("places"))
    topology.places.push_back({number_of(place.at("numa_node")), number_of(place.at("nvlinks"))});
  for (const nlohmann::json& pair : json.at("pairs"))
    topology.pairs.push_back(
        {pair.at("from"), pair.at("to"), pair.at("path"), number_of(pair.at("nvlinks")), pair.at("peer_access")});
  for (const nlohmann::json& node : json.at("nodes")) topology.nodes.push_back({node.at("number"), node.at("cpus")});
}

}  // namespace moetune
