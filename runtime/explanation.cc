#include "runtime/explanation.h"

#include <nlohmann/json.hpp>

namespace moetune {

std::string explanation(const Family& family, const Choice& choice) {
  static constexpr const char* kKinds[] = {"exact", "nearest", "default", "pinned"};
  const FamilyEntry& entry = family.entry(choice);
  nlohmann::ordered_json document = {{"kind", kKinds[static_cast<std::size_t>(choice.kind)]},
                                     {"kernel", family.kernel().name()},
                                     {"config", entry.config},
                                     {"cubin", entry.variant->digest()},
                                     {"hardware", entry.source.hardware},
                                     {"inherited", entry.source.inherited},
                                     {"file", entry.source.file}};
  if (!entry.source.problem.empty()) {
    document["measured_on"] = entry.source.problem;
    document["time_us"] = entry.source.time_us;
    document["default_time_us"] = entry.source.default_us;
  }
  if (!entry.source.stored_at.empty()) {
    document["stored_at"] = entry.source.stored_at;
    document["timing"] = timing_name(entry.source.timing);
    if (entry.source.provisional) document["provisional"] = true;
  }
  if (const std::optional<RangeLoss>& loss = entry.source.loss) {
    document["regret"] = {{"ranges", loss->ranges},      {"bound", loss->bound},        {"cell", nullptr},
                          {"shapes", loss->seen.shapes}, {"median", loss->seen.median}, {"p95", loss->seen.p95},
                          {"worst", loss->seen.worst}};
    if (choice.kind == ChoiceKind::exact) document["regret"]["cell"] = loss->cell;
  }
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace moetune
