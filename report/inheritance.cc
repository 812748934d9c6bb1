#include "report/inheritance.h"

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace moetune {
namespace {

using ServedFamily = std::pair<std::string, std::string>;  // kernel, specialization

// By HardwareKey::text; GPUs alone.
using Gpus = std::map<std::string, HardwareKey>;

bool serves(const WorkloadReport& report) {
  return report.stored.winner && !report.stored.contended && !report.recorded() && !report.family.empty();
}

// The GPU whose winners that GPU would launch; nullptr if none is of its architecture.
const HardwareKey* donor_of(const Gpus& owners, const HardwareKey& gpu) {
  const HardwareKey* best = nullptr;
  for (const auto& [text, owner] : owners) {
    if (owner.compute_capability != gpu.compute_capability) continue;
    const auto distance = [&](const HardwareKey& one) { return std::abs(one.sm_count - gpu.sm_count); };
    if (best == nullptr || distance(owner) < distance(*best)) best = &owner;
  }
  return best;
}

}  // namespace

void find_inherited(std::vector<WorkloadReport>& workloads, const std::vector<RangeReport>& ranges,
                    const std::vector<Workload>& all) {
  Gpus gpus;
  const HardwareKey* last = nullptr;
  for (const Workload& workload : all) {
    const HardwareKey& hardware = workload.key.hardware;
    if (hardware.origin != "gpu" || (last != nullptr && last->is_same(hardware))) continue;
    gpus.emplace(hardware.text(), hardware);
    last = &hardware;
  }
  if (gpus.size() < 2) return;
  std::map<ServedFamily, Gpus> owners;
  for (const WorkloadReport& one : workloads)
    if (serves(one)) owners[{one.key().kernel, one.family}].emplace(one.key().hardware.text(), one.key().hardware);
  for (const RangeReport& one : ranges) {
    if (!one.inherited_by && one.key.hardware.origin == "gpu")
      owners[{one.key.kernel, one.key.family}].emplace(one.key.hardware.text(), one.key.hardware);
  }
  std::map<ServedFamily, std::map<std::string, std::vector<std::string>>> heirs;  // by the donor: the names of GPUs
  for (const auto& [family, having] : owners) {
    for (const auto& [text, gpu] : gpus) {
      const HardwareKey* const donor = having.contains(text) ? nullptr : donor_of(having, gpu);
      if (donor != nullptr) heirs[family][donor->text()].push_back(gpu.name);
    }
  }
  for (WorkloadReport& one : workloads) {
    const auto family = heirs.find({one.key().kernel, one.family});
    if (family == heirs.end() || !serves(one)) continue;
    if (const auto found = family->second.find(one.key().hardware.text()); found != family->second.end())
      one.inherited_by = found->second;
  }
}

}  // namespace moetune
