#include "jobs/documents.h"

#include <cmath>

namespace moetune {

Document number_or_null(double value) {
  return std::isfinite(value) && value > 0 ? Document(value) : Document(nullptr);
}

Document number_or_null(std::optional<double> value) { return value ? number_or_null(*value) : nullptr; }

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
          {"driver", info.key.driver.empty() ? Document(nullptr) : Document(info.key.driver)},
          {"hardware", info.key.text()},
          {"pci_bus_id", info.pci_bus_id.empty() ? Document(nullptr) : Document(info.pci_bus_id)},
          {"uuid", info.uuid.empty() ? Document(nullptr) : Document(info.uuid)}};
}

Document subject_document(const Subject& subject) {
  return {
      {"kernel", subject.kernel}, {"problem", subject.problem}, {"device", device_document(subject.device)}};
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
          {"measuring_s", time.measuring}, {"finishing_s", time.finishing}, {"other_s", time.other()},
          {"compiling_s", time.compiling}};
}

Document trial_document(const Trial& trial) {
  const TrialResult& result = trial.result;
  Document document = {{"config", trial.config.text()}, {"outcome", outcome_name(result.outcome)}};
  document["time_us"] = has_time(result.outcome) ? number_or_null(result.measurement.median_us) : nullptr;
  if (!result.message.empty()) document["message"] = result.message;
  if (trial.resumed) document["resumed"] = true;
  return document;
}

}  // namespace moetune
