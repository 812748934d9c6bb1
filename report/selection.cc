#include "report/selection.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "base/format.h"
#include "base/lists.h"
#include "base/suggest.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

using Before = bool (*)(const WorkloadReport&, const WorkloadReport&);

struct SortOrder {
  std::string_view name;
  Before before;
};

constexpr SortOrder kOrders[] = {
    {"key", nullptr},  // as a cache lists them
    {"kernel", [](const WorkloadReport& a, const WorkloadReport& b) { return a.key().kernel < b.key().kernel; }},
    {"problem",
     [](const WorkloadReport& a, const WorkloadReport& b) {
       return std::tie(a.key().kernel, a.key().problem) < std::tie(b.key().kernel, b.key().problem);
     }},
    {"hardware",
     [](const WorkloadReport& a, const WorkloadReport& b) { return a.key().hardware.name < b.key().hardware.name; }},
    {"time", [](const WorkloadReport& a, const WorkloadReport& b) { return a.stored.best_us > b.stored.best_us; }},
    {"speedup",
     [](const WorkloadReport& a, const WorkloadReport& b) { return a.stored.speedup() > b.stored.speedup(); }},
    {"age", [](const WorkloadReport& a, const WorkloadReport& b) { return a.stored_at > b.stored_at; }},
    {"trials", [](const WorkloadReport& a, const WorkloadReport& b) { return a.stored.trials > b.stored.trials; }}};

Before order_of(const std::string& name) {
  for (const SortOrder& order : kOrders) {
    if (order.name == name || name.empty()) return order.before;
  }
  throw BadField("sort", unknown_name("order", name, sort_orders()));
}

}  // namespace

std::vector<std::string> sort_orders() { return gathered<std::string>(kOrders, &SortOrder::name); }

void require_known_kernel(const std::string& kernel, const std::vector<Workload>& workloads) {
  std::set<std::string> names;
  for (const Kernel* known : all_kernels()) names.insert(known->name());
  for (const Workload& workload : workloads) names.insert(workload.key.kernel);
  if (!kernel.empty() && !names.contains(kernel))
    throw BadInput(unknown_name("kernel", kernel, {names.begin(), names.end()}));
}

bool is_selected(const Selection& selection, const std::string& kernel, const HardwareKey& hardware) {
  return (selection.kernel.empty() || selection.kernel == kernel) &&
         lower_case(hardware.name).find(lower_case(selection.hardware)) != std::string::npos;
}

void select(std::vector<WorkloadReport>& workloads, const Selection& selection) {
  const Before before = order_of(selection.sort);
  std::erase_if(workloads, [&](const WorkloadReport& one) {
    return !is_selected(selection, one.key().kernel, one.key().hardware) || (selection.stale && one.stale.empty());
  });
  if (before != nullptr) std::ranges::stable_sort(workloads, before);
  if (selection.limit == 0) return;
  std::erase_if(workloads, [](const WorkloadReport& one) { return one.folded_into != 0; });
  if (workloads.size() > selection.limit)
    workloads.erase(workloads.begin() + static_cast<std::ptrdiff_t>(selection.limit), workloads.end());
}

}  // namespace moetune
