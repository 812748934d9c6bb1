#include <functional>
#include <set>

#include "base/error.h"
#include "cache/pack.h"
#include "cli/cache_actions.h"
#include "cli/command.h"
#include "cli/text.h"
#include "jobs/session/documents.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

void require_selected(const Selection& selection, const Cache& cache) {
  if (selection.kernel.empty() && selection.hardware.empty()) return;
  const std::vector<Workload> all = cache.workloads.all();
  require_known_kernel(selection.kernel, all);
  if (selection.hardware.empty()) return;
  std::set<std::string> names;
  for (const Workload& one : all) names.insert(one.key.hardware.name);
  for (const FamilyRange& one : cache.ranges.read()) names.insert(one.key.hardware.name);
  std::string known;
  for (const std::string& name : names) {
    if (is_selected({.hardware = selection.hardware}, "", {.name = name})) return;
    known += (known.empty() ? "" : ", ") + name;
  }
  if (!names.empty())
    throw BadField("hardware", "no GPU of " + cache.path().string() + " has '" + selection.hardware +
                                   "' in its name; it has results of " + known);
}

}  // namespace

int export_cache(const CacheArguments& arguments, Cache& cache, Output& output) {
  const Selection& selection = arguments.selection;
  require_selected(selection, cache);
  std::function<bool(const std::string&, const HardwareKey&)> takes;
  if (!selection.kernel.empty() || !selection.hardware.empty()) {
    takes = [&](const std::string& kernel, const HardwareKey& hardware) {
      return is_selected(selection, kernel, hardware);
    };
  }
  const PackContents made = export_pack(
      cache, arguments.operand, {.takes = takes, .recorded = arguments.recorded, .description = own_description});
  const std::pair<std::int64_t, const char*> left_out[] = {
      {made.recorded, "measured on a recording"},
      {made.contended, "measured while somebody else used the GPU"},
      {made.provisional, "provisional; the same search again makes them winners"},
      {made.damaged, "damaged; cache check names them"},
      {made.without_family, "stored by an older moetune; search again to export them"}};
  for (const auto& [count, why] : left_out) {
    if (count > 0) output.warn(std::to_string(count) + (count == 1 ? " winner" : " winners") + " left out: " + why);
  }
  if (made.damaged_ranges > 0)
    output.note(counted_text(made.damaged_ranges, "range table") + " left out: damaged; cache check names them");
  output.result() << arguments.operand << ": " << made.winners << (made.winners == 1 ? " winner" : " winners") << " of "
                  << made.families << (made.families == 1 ? " family, " : " families, ")
                  << bytes_text(static_cast<double>(made.bytes)) << "\n";
  output.document({{"pack", arguments.operand},
                   {"winners", made.winners},
                   {"ranges", made.ranges},
                   {"families", made.families},
                   {"bytes", made.bytes},
                   {"left_out",
                    {{"recorded", made.recorded},
                     {"contended", made.contended},
                     {"provisional", made.provisional},
                     {"damaged", made.damaged},
                     {"damaged_ranges", made.damaged_ranges},
                     {"without_family", made.without_family}}}});
  return kDone;
}

}  // namespace moetune
