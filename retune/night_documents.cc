// A night as JSON.
#include "base/lists.h"
#include "retune/night.h"

namespace moetune {

Document item_document(const PlanItem& item) {
  return {{"kernel", item.point.kernel},
          {"problem", item.point.problem},
          {"over", text_or_null(item.over)},
          {"timing", timing_name(item.key.timing)},
          {"weight", item.point.weight},
          {"causes", gathered<std::string>(item.causes, stale_cause_name)},
          {"why", item.why()},
          {"value", item.value},
          {"expected_s", item.expected_s}};
}

Document reworked_document(const PlanItem& item, const ReworkResult& result, const std::string& device,
                           double seconds) {
  Document document = {{"kernel", item.point.kernel},
                       {"problem", item.point.problem},
                       {"over", text_or_null(item.over)},
                       {"device", device},
                       {"verdict", rework_verdict_name(result.verdict)},
                       {"reason", result.reason},
                       {"unfinished", result.unfinished},
                       {"seconds", seconds},
                       {"trials", result.trials},
                       {"best_us", number_or_null(result.best_us)}};
  if (result.triage) {
    document["remedy"] = remedy_name(result.triage->remedy);
    document["lost"] = result.triage->lost;
    document["triage"] = result.triage->reason;
  }
  if (result.contest) document["ratio"] = {result.contest->ratio, result.contest->low, result.contest->high};
  return document;
}

Document examined_elsewhere(const PlanItem& item) {
  return reworked_document(item, {.verdict = ReworkVerdict::kept, .reason = "another night has examined it"}, "", 0);
}

Document plan_document(const NightPlan& plan) {
  Document items = Document::array(), left_out = Document::array();
  for (const PlanItem& item : plan.items) items.push_back(item_document(item));
  for (const LeftOut& one : plan.left_out)
    left_out.push_back({{"kernel", one.point.kernel}, {"problem", one.point.problem}, {"why", one.why}});
  return {{"stale", std::move(items)},
          {"fresh", plan.fresh.size()},
          {"left_out", std::move(left_out)},
          {"expected_s", plan.expected_s()}};
}

Document night_document(const NightResult& result) {
  Document document = {{"plan", plan_document(result.plan)}, {"devices", result.devices}};
  document["left_out_devices"] = Document::array();
  for (const LeftOutDevice& one : result.left_out_devices)
    document["left_out_devices"].push_back({{"device", one.device}, {"why", one.why}});
  document["reworked"] = result.reworked;
  document["interrupted"] = result.interrupted;
  document["out_of_time"] = result.out_of_time;
  document["broken"] = text_or_null(result.broken);
  return document;
}

}  // namespace moetune
