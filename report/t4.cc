#include "report/t4.h"

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/version.h"
#include "jobs/stored/stored_results.h"
#include "search/outcome.h"

namespace moetune {
namespace {

constexpr double kMsPerUs = 1e-3, kMsPerS = 1e3;

const char* invalidity_of(std::optional<Outcome> outcome) {
  if (!outcome) return "runtime";
  switch (*outcome) {
    case Outcome::ok:
    case Outcome::too_slow:
      return "correct";
    case Outcome::pruned:
      return "constraints";
    case Outcome::compile_failed:
      return "compile";
    case Outcome::wrong_result:
    case Outcome::implausible:
      return "correctness";
    case Outcome::timed_out:
      return "timeout";
    case Outcome::launch_failed:
    case Outcome::crashed:
    case Outcome::out_of_memory:
      break;
  }
  return "runtime";
}

Document value_document(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end ? Document(number) : Document(text);
}

Document times_document(const Document& facts, double time_us) {
  Document runtimes = Document::array();
  if (facts.is_object() && facts.contains("samples_us") && facts["samples_us"].is_array()) {
    for (const Document& sample : facts["samples_us"]) {
      if (sample.is_number()) runtimes.push_back(sample.get<double>() * kMsPerUs);
    }
  }
  if (runtimes.empty() && time_us > 0) runtimes.push_back(time_us * kMsPerUs);
  return {{"compilation_time", kMsPerS * time_field(facts, "compile_s")},
          {"runtimes", std::move(runtimes)},
          {"framework", kMsPerS * time_field(facts, "measure_s")},
          {"search_algorithm", 0},
          {"validation", kMsPerS * time_field(facts, "validate_s")}};
}

Document trial_entry(const TrialRecord& trial, Document configuration) {
  const std::optional<Outcome> outcome = outcome_from_name(trial.outcome);
  const bool right = outcome && has_time(*outcome);
  const double time_us = right && std::isfinite(trial.time_us) && trial.time_us > 0 ? trial.time_us : 0;
  Document measurements = Document::array();
  if (time_us > 0) {
    measurements.push_back({{"name", "time"}, {"value", time_us * kMsPerUs}, {"unit", "ms"}});
    measurements.push_back({{"name", "time_interval_95"},
                            {"value", {trial.interval_low_us * kMsPerUs, trial.interval_high_us * kMsPerUs}},
                            {"unit", "ms"}});
  }
  return {{"configuration", std::move(configuration)},
          {"objectives", {"time"}},
          {"times", times_document(parse_stored(trial.facts), time_us)},
          {"invalidity", invalidity_of(outcome)},
          {"correctness", right ? 1 : 0},
          {"measurements", std::move(measurements)}};
}

}  // namespace

Document t4_document(const WorkloadKey& key, const std::vector<TrialRecord>& trials) {
  Document results = Document::array();
  for (const TrialRecord& trial : trials) {
    Document configuration = Document::object();
    try {
      for (const auto& [name, value] : split_assignment(trial.config, "a configuration"))
        configuration[name] = value_document(value);
    } catch (const BadInput&) {
      continue;
    }
    results.push_back(trial_entry(trial, std::move(configuration)));
  }
  return {{"schema_version", kT4Version},
          {"metadata",
           {{"compute_api", "CUDA"},
            {"platform", key.toolchain},
            {"device", key.hardware.name},
            {"autotuner", "moetune"},
            {"autotuner_version", version()},
            {"timeunit", "milliseconds"},
            {"kernel", key.kernel},
            {"problem", key.problem},
            {"hardware_key", key.hardware.text()},
            {"recorded", key.hardware.origin != "gpu"}}},
          {"results", std::move(results)}};
}

std::string t4_file_name(const Workload& workload) {
  std::string name = workload.key.kernel.substr(0, 64);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!plain) c = '_';
  }
  return name + "-" + std::to_string(workload.id) + ".t4.json";
}

}  // namespace moetune
