// A night as JSON.
#include "retune/night.h"

namespace moetune {

Document item_document(const PlanItem& item) {
  Document causes = Document::array();
  for (const StaleCause cause : item.causes) causes.push_back(stale_cause_name(cause));
  return {{"kernel", item.point.kernel},
          {"problem", item.point.problem},
          {"over", item.over.empty() ? Document(nullptr) : Document(item.over)},
          {"timing", timing_name(item.key.timing)},
          {"weight", item.point.weight},
          {"causes", std::move(causes)},
          {"why", item.why()},
          {"value", item.value},
          {"expected_s", item.expected_s}};
}

Document reworked_document(const Reworked& reworked) {
  const ReworkResult& result = reworked.result;
  const std::string& over = reworked.item.over;
  Document document = {{"kernel", reworked.item.point.kernel},
                       {"problem", reworked.item.point.problem},
                       {"over", over.empty() ? Document(nullptr) : Document(over)},
                       {"device", reworked.device},
                       {"verdict", rework_verdict_name(result.verdict)},
                       {"reason", result.reason},
                       {"unfinished", result.unfinished},
                       {"seconds", reworked.seconds},
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

Document confirmed_document(const Confirmed& one) {
  Document document = {{"kernel", one.point.kernel}, {"problem", one.point.problem}, {"device", one.device},
                       {"held", one.held},           {"withdrawn", one.withdrawn},   {"reason", one.reason}};
  if (one.held) document["ratio"] = {one.contest.ratio, one.contest.low, one.contest.high};
  return document;
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

static Document times_document(const NightTimes& times) {
  Document devices = Document::array();
  for (const DeviceTimes& one : times.devices)
    devices.push_back({{"device", one.device},
                       {"canary_s", one.canary_s},
                       {"searched_s", one.searched_s},
                       {"searched_from_s", one.searched_from},
                       {"searched_to_s", one.searched_to},
                       {"checked_s", one.checked_s},
                       {"checked_to_s", one.checked_to}});
  return {{"opened_to_s", times.opened_to},
          {"compared_to_s", times.compared_to},
          {"planned_to_s", times.planned_to},
          {"ended_s", times.ended},
          {"devices", std::move(devices)}};
}

Document night_document(const NightResult& result) {
  Document document = {{"plan", plan_document(result.plan)}, {"devices", result.devices}};
  document["left_out_devices"] = Document::array();
  for (const LeftOutDevice& one : result.left_out_devices)
    document["left_out_devices"].push_back({{"device", one.device}, {"why", one.why}});
  document["reworked"] = Document::array();
  for (const Reworked& one : result.reworked) document["reworked"].push_back(reworked_document(one));
  document["confirmed"] = Document::array();
  for (const Confirmed& one : result.confirmed) document["confirmed"].push_back(confirmed_document(one));
  document["times"] = times_document(result.times);
  document["interrupted"] = result.interrupted;
  document["out_of_time"] = result.out_of_time;
  document["broken"] = result.broken.empty() ? Document(nullptr) : Document(result.broken);
  return document;
}

}  // namespace moetune
