#include "jobs/session/documents.h"

#include <cmath>

namespace moetune {

Document number_or_null(double value) {
  return std::isfinite(value) && value > 0 ? Document(value) : Document(nullptr);
}

Document number_or_null(std::optional<double> value) { return value ? number_or_null(*value) : nullptr; }

Document text_or_null(const std::string& text) { return text.empty() ? Document(nullptr) : Document(text); }

Document speed_document(const Work& work, const std::optional<Floor>& floor, double time_us) {
  const Rate rate = work.rate(time_us);
  const bool known = floor && time_us > 0;
  return {{"tb_s", rate.unit == Unit::tb_s ? number_or_null(rate.value) : nullptr},
          {"tflop_s", rate.unit == Unit::tflop_s ? number_or_null(rate.value) : nullptr},
          {"roofline", known ? number_or_null(floor->roofline_fraction(time_us)) : nullptr},
          {"bound", known ? Document(floor->bound) : Document(nullptr)}};
}

Document timings_document(const std::vector<TimingResult>& timings, std::string_view winner) {
  if (timings.empty()) return nullptr;
  Document document = Document::object(), differs = Document::array();
  for (const TimingResult& one : timings) {
    document[std::string(timing_name(one.timing))] = {{"time_us", number_or_null(one.winner_us)},
                                                      {"default_us", number_or_null(one.default_us)},
                                                      {"fastest", one.fastest},
                                                      {"fastest_us", number_or_null(one.fastest_us)}};
  }
  for (const Timing timing : differing_timings(timings, winner)) differs.push_back(timing_name(timing));
  document["differs"] = std::move(differs);
  return document;
}

Document assignment_document(const Assignment& assignment) {
  Document document = Document::object();
  for (const auto& [name, value] : assignment) {
    document[name] = value.is_named() ? Document(value.name) : Document(value.number);
  }
  return document;
}

Document device_document(const DeviceInfo& info) {
  return {{"id", info.id},
          {"name", info.key.name},
          {"architecture", info.architecture},
          {"recorded", info.recorded},
          {"origin", info.key.origin},
          {"driver", text_or_null(info.key.driver)},
          {"hardware", info.key.text()},
          {"pci_bus_id", text_or_null(info.pci_bus_id)},
          {"uuid", text_or_null(info.uuid)}};
}

Document subject_document(const Subject& subject) {
  return {{"kernel", subject.kernel}, {"problem", subject.problem}, {"device", device_document(subject.device)}};
}

Document counts_document(const TrialCounts& counts) {
  Document document = {{"total", counts.total()}};
  for (const Outcome outcome : kOutcomes) document[std::string(outcome_name(outcome))] = counts[outcome];
  document["resumed"] = counts.resumed;
  document["unmeasured"] = counts.unmeasured;
  return document;
}

Document time_document(const TimeSpent& time) {
  return {{"preparing_s", time.preparing}, {"waiting_s", time.waiting},     {"validating_s", time.validating},
          {"measuring_s", time.measuring}, {"disturbed_s", time.disturbed}, {"finishing_s", time.finishing},
          {"other_s", time.other()},       {"compiling_s", time.compiling}};
}

Document contention_document(const Contention& contention) {
  if (contention.canaries + contention.contended + contention.unchecked == 0) return nullptr;
  return {{"canaries", contention.canaries},
          {"disturbed", contention.disturbed},
          {"longest_quiet_gap_us", contention.longest_quiet_us},
          {"largest_quiet_slow_share", contention.largest_quiet_slow_share},
          {"waited_s", contention.waited_s},
          {"measured_again", contention.again},
          {"contended_trials", contention.contended},
          {"unchecked_trials", contention.unchecked},
          {"gave_up", contention.gave_up}};
}

Document certificate_document(const RangeCertificate& seen) {
  return {{"shapes", seen.shapes},
          {"median", seen.median},
          {"p95", seen.p95},
          {"worst", seen.worst},
          {"worst_to_default", seen.worst_to_default},
          {"failed", seen.failed}};
}

Document trial_document(const Trial& trial, const std::optional<Objective>& objective) {
  const TrialResult& result = trial.result;
  Document document = {{"config", trial.config.text()}, {"outcome", outcome_name(result.outcome)}};
  if (objective && !objective->is_time()) {
    document["figure"] = has_time(result.outcome) ? Document(objective->figure(trial.id)) : Document(nullptr);
  } else {
    document["time_us"] = has_time(result.outcome) ? number_or_null(result.measurement.median_us) : nullptr;
  }
  if (!result.message.empty()) document["message"] = result.message;
  if (trial.resumed) document["resumed"] = true;
  if (result.contended) document["contended"] = true;
  return document;
}

}  // namespace moetune
