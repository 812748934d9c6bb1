#include <algorithm>
#include <functional>

#include "base/format.h"
#include "kernels/registry.h"
#include "report/report.h"

namespace moetune {
namespace {

// Below this fraction of the roofline a short search may well have missed something.
constexpr double kLowRoofline = 0.7;
constexpr std::int64_t kShortSearch = 100;
constexpr std::size_t kMostAdvice = 5;

std::string search_command(const WorkloadReport& report) {
  std::string command = "moetune search " + shell_word(report.key().kernel);
  if (!report.key().problem.empty()) command += " --problem " + shell_word(report.key().problem);
  return command;
}

using Holds = std::function<bool(const WorkloadReport&)>;

// The search of the first workload for which it holds, with how many more there are.
void advise_search(const Report& report, const Holds& holds, const std::string& reason, const std::string& options,
                   std::vector<Advice>& advice) {
  const WorkloadReport* first = nullptr;
  std::size_t count = 0;
  for (const WorkloadReport& one : report.workloads) {
    if (one.recorded() || one.folded_into != 0 || !holds(one)) continue;  // a recording does not change
    if (known_kernel(one.key().kernel) == nullptr) continue;              // nothing searches it
    if (first == nullptr) first = &one;
    ++count;
  }
  if (first == nullptr) return;
  const std::string more = count > 2   ? ", as are " + std::to_string(count - 1) + " more"
                           : count > 1 ? ", as is another one"
                                       : "";
  advice.push_back({search_command(*first) + options,
                    "workload " + std::to_string(first->stored.workload.id) + " " + reason + more});
}

bool has_winner(const WorkloadReport& one) { return one.stored.winner.has_value(); }

}  // namespace

std::vector<Advice> advise(const Report& report) {
  std::vector<Advice> advice;
  advise_search(
      report, [](const WorkloadReport& one) { return !one.stored.damage.empty(); }, "is damaged", "", advice);
  for (const HardwareSection& section : report.hardware) {
    if (section.recorded() || section.ceilings.read_tb_s) continue;
    advice.push_back({"moetune devices --calibrate",
                      "the ceilings of " + section.hardware.name + " are not known, so there is no roofline"});
    break;
  }
  advise_search(
      report, [](const WorkloadReport& one) { return one.stored.contended; }, "is contended", "", advice);
  advise_search(
      report,
      [](const WorkloadReport& one) {
        return one.stored.is_provisional() ||
               (!has_winner(one) && one.stored.damage.empty() && one.stored.trials > 0 && one.kept == 0);
      },
      "is unfinished", "", advice);
  advise_search(
      report, [](const WorkloadReport& one) { return has_winner(one) && !one.stale.empty(); }, "is stale", "", advice);
  advise_search(
      report,
      [](const WorkloadReport& one) {
        return has_winner(one) && one.stored.roofline > 0 && one.stored.roofline < kLowRoofline &&
               one.origin.trials.value_or(0) < kShortSearch;
      },
      "is far from the roofline after a short search", " --budget 200", advice);
  if (advice.size() > kMostAdvice) advice.resize(kMostAdvice);
  return advice;
}

}  // namespace moetune
