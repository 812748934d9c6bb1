#include "tuner/trial_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/stored_time.h"
#include "base/version.h"
#include "kernels/plan_interface.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

// A recording's file name is part of the provenance, and may hold any bytes.
std::string stored_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json facts_json(const TrialResult& result, const Build* build) {
  Json facts = {{"validate_s", result.validate_s}, {"measure_s", result.measure_s}};
  if (has_time(result.outcome)) {
    facts["max_error"] = result.max_error;
    facts["dissimilarity"] = result.dissimilarity;
    const std::vector<double>& samples = result.measurement.samples_us;
    facts["samples_us"] =
        std::vector<double>(samples.begin(), samples.begin() + std::min(samples.size(), kStoredSamples));
  }
  if (build == nullptr) return facts;
  const EntryFacts worst = worst_facts(*build);
  facts["registers"] = worst.registers;
  facts["spill_bytes"] = worst.spill_store_bytes;
  facts["static_shared"] = worst.static_shared;
  facts["compile_s"] = build->seconds;
  facts["build"] = build->digest;
  if (!build->repeatable) facts["repeatable"] = false;
  return facts;
}

Json provenance_json(const Provenance& provenance) {
  Json json = {{"strategy", provenance.strategy}, {"seed", provenance.seed}, {"device", provenance.device}};
  if (!provenance.driver.empty()) json["driver"] = provenance.driver;
  if (!provenance.uuid.empty()) json["uuid"] = provenance.uuid;
  if (provenance.settings) {
    const GpuSettings& settings = *provenance.settings;
    if (settings.power_limit_w > 0) json["power_limit_w"] = settings.power_limit_w;
    if (settings.mig) json["mig"] = *settings.mig;
    if (settings.ecc) json["ecc"] = *settings.ecc;
  }
  if (provenance.trials > 0) json["trials"] = provenance.trials;
  if (provenance.final_breakdown) json["final_breakdown"] = true;
  if (!provenance.judged.empty()) json["judged"] = provenance.judged;
  if (provenance.provisional) json["provisional"] = true;
  return json;
}

// Trials of earlier versions have none.
std::vector<double> stored_numbers(const std::string& facts, const char* name) {
  const Json json = parse_json_or_discard(facts);
  if (!json.is_object()) return {};
  std::vector<double> numbers;
  for (const Json& number : json.value(name, Json::array())) {
    if (number.is_number()) numbers.push_back(number.get<double>());
  }
  return numbers;
}

bool flag(const std::string& object, const char* name, bool otherwise) {
  const Json json = parse_json_or_discard(object);
  if (!json.is_object()) return otherwise;
  const auto at = json.find(name);
  return at != json.end() && at->is_boolean() ? at->get<bool>() : otherwise;
}

StoredLaunch stored_launch(const Candidate& candidate) {
  StoredLaunch launch;
  launch.config = candidate.config.text();
  launch.plan = plan_text(candidate.plan);
  launch.interface = interface_digest(candidate.plan.unit, candidate.plan);
  if (candidate.build != nullptr) launch.cubin = candidate.build->cubin;
  return launch;
}

void add_clocks(Json& json, const Measurement& measurement) {
  if (measurement.sm_clock_mhz > 0) json["sm_clock_mhz"] = measurement.sm_clock_mhz;
  if (measurement.memory_clock_mhz > 0) json["memory_clock_mhz"] = measurement.memory_clock_mhz;
  if (measurement.temperature_c > 0) json["temperature_c"] = measurement.temperature_c;
  if (measurement.throttled) json["throttled"] = true;
  if (!measurement.settled) json["unsettled"] = true;
}

}  // namespace

EntryFacts worst_facts(const Build& build) {
  EntryFacts worst;
  for (const auto& [name, entry] : build.entries) {
    worst.registers = std::max(worst.registers, entry.registers);
    worst.spill_store_bytes = std::max(worst.spill_store_bytes, entry.spill_store_bytes);
    worst.static_shared = std::max(worst.static_shared, entry.static_shared);
  }
  return worst;
}

TrialRecord to_record(const Config& config, const TrialResult& result, const Build* build,
                      const Provenance& provenance) {
  Json source = provenance_json(provenance);
  add_clocks(source, result.measurement);
  TrialRecord record;
  record.contended = result.contended;
  record.config = config.text();
  record.outcome = outcome_name(result.outcome);
  record.message = result.message;
  if (has_time(result.outcome)) {
    record.time_us = result.measurement.median_us;
    record.interval_low_us = result.measurement.low_us;
    record.interval_high_us = result.measurement.high_us;
    record.samples = static_cast<int>(result.measurement.samples_us.size());
  }
  record.facts = stored_text(facts_json(result, build));
  record.provenance = stored_text(source);
  return record;
}

bool should_retry(const TrialRecord& record) {
  if (record.contended) return true;
  const std::optional<Outcome> outcome = outcome_from_name(record.outcome);
  if (!outcome) return true;
  if (is_breakdown(*outcome)) return !flag(record.provenance, "final_breakdown", false);
  if (*outcome == Outcome::out_of_memory) return true;  // as much as was free then
  return *outcome == Outcome::compile_failed && !flag(record.facts, "repeatable", true);
}

bool belongs_to_search(const TrialRecord& record, const std::string& strategy, std::uint64_t seed) {
  const Json json = parse_json_or_discard(record.provenance);
  return json.is_object() && json.value("strategy", Json()) == strategy && json.value("seed", Json()) == seed;
}

std::optional<TrialResult> from_record(const TrialRecord& record) {
  const std::optional<Outcome> outcome = outcome_from_name(record.outcome);
  if (!outcome || (has_time(*outcome) && !is_stored_time(record.time_us))) return std::nullopt;
  TrialResult result;
  result.outcome = *outcome;
  result.contended = record.contended;
  result.message = record.message;
  result.measurement.median_us = record.time_us;
  result.measurement.low_us = record.interval_low_us;
  result.measurement.high_us = record.interval_high_us;
  result.measurement.samples_us = stored_numbers(record.facts, "samples_us");
  return result;
}

Provenance provenance_of(const std::string& strategy, std::uint64_t seed, const DeviceInfo& device) {
  return {.strategy = strategy,
          .seed = seed,
          .device = device.id,
          .driver = device.key.driver,
          .uuid = device.uuid,
          .settings = device.settings};
}

std::string provenance_text(const Provenance& provenance) {
  Json json = provenance_json(provenance);
  json["moetune"] = version();
  return stored_text(json);
}

WinnerRecord to_winner(const Candidate& winner, const TrialResult& result, const Candidate& default_candidate,
                       const TrialResult* baseline, double roofline, const Provenance& provenance) {
  Json source = provenance_json(provenance);
  source["moetune"] = version();
  add_clocks(source, result.measurement);
  WinnerRecord record;
  record.contended = result.contended;
  static_cast<StoredLaunch&>(record) = stored_launch(winner);
  if (default_candidate.build != nullptr) record.default_launch = stored_launch(default_candidate);
  record.time_us = result.measurement.median_us;
  record.interval_low_us = result.measurement.low_us;
  record.interval_high_us = result.measurement.high_us;
  record.default_time_us = baseline != nullptr && has_time(baseline->outcome) ? baseline->measurement.median_us : 0;
  record.roofline = roofline;
  record.provenance = stored_text(source);
  return record;
}

Candidate from_winner(const WinnerRecord& winner, const Config& config) {
  auto build = std::make_shared<Build>();
  build->outcome = Outcome::ok;
  build->cubin = winner.cubin;
  return {config, parse_json(winner.plan, "a stored plan").get<Plan>(), std::move(build)};
}

}  // namespace moetune
