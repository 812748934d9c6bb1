#include "tuner/worker/worker_messages.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"
#include "kernels/limits_json.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

// JSON has no infinity; nothing here is minus infinity or NaN for a reason that must survive.
Json from_number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double to_number(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::infinity() : json.get<double>();
}

}  // namespace

Timing timing_from_json(const Json& json) {
  const auto name = json.get<std::string>();
  if (const std::optional<Timing> timing = timing_from_name(name)) return *timing;
  throw BadInput("the worker knows no timing '" + name + "'");
}

// The key shares its figures with the limits.
void to_json(Json& json, const DeviceInfo& info) {
  const HardwareKey& key = info.key;
  json = {{"name", key.name},
          {"sm_clock_khz", key.sm_clock_khz},
          {"memory_clock_khz", key.memory_clock_khz},
          {"memory_bus_bits", info.memory_bus_bits},
          {"origin", key.origin},
          {"driver", key.driver},
          {"limits", info.limits},
          {"architecture", info.architecture},
          {"id", info.id},
          {"pci_bus_id", info.pci_bus_id},
          {"uuid", info.uuid}};
  if (info.settings) {
    json["power_limit_w"] = info.settings->power_limit_w;
    if (info.settings->mig) json["mig"] = *info.settings->mig;
    if (info.settings->ecc) json["ecc"] = *info.settings->ecc;
  }
  if (info.load) {
    json["foreign_processes"] = info.load->foreign_processes;
    json["free_bytes"] = info.load->free_bytes;
  }
}

void from_json(const Json& json, DeviceInfo& info) {
  json.at("limits").get_to(info.limits);
  HardwareKey& key = info.key;
  json.at("name").get_to(key.name);
  json.at("sm_clock_khz").get_to(key.sm_clock_khz);
  json.at("memory_clock_khz").get_to(key.memory_clock_khz);
  json.at("memory_bus_bits").get_to(info.memory_bus_bits);
  json.at("origin").get_to(key.origin);
  json.at("driver").get_to(key.driver);
  key.compute_capability = info.limits.compute_capability;
  key.sm_count = info.limits.sm_count;
  key.l2_bytes = info.limits.l2_bytes;
  key.memory_bytes = info.limits.memory_bytes;
  json.at("architecture").get_to(info.architecture);
  json.at("id").get_to(info.id);
  json.at("pci_bus_id").get_to(info.pci_bus_id);
  json.at("uuid").get_to(info.uuid);
  if (json.contains("power_limit_w")) {
    GpuSettings& settings = info.settings.emplace();
    json.at("power_limit_w").get_to(settings.power_limit_w);
    if (json.contains("mig")) settings.mig = json.at("mig").get<bool>();
    if (json.contains("ecc")) settings.ecc = json.at("ecc").get<bool>();
  }
  if (!json.contains("free_bytes")) return;
  info.load = GpuLoad{.foreign_processes = json.at("foreign_processes"), .free_bytes = json.at("free_bytes")};
}

void to_json(Json& json, const MeasurePolicy& policy) {
  json = {{"timing", timing_name(policy.timing)},  {"drop_above_us", from_number(policy.drop_above_us)},
          {"quick_samples", policy.quick_samples}, {"min_samples", policy.min_samples},
          {"max_samples", policy.max_samples},     {"relative_width", policy.relative_width},
          {"time_limit_s", policy.time_limit_s},   {"prove_below_us", from_number(policy.prove_below_us)}};
}

void from_json(const Json& json, MeasurePolicy& policy) {
  policy.timing = timing_from_json(json.at("timing"));
  policy.drop_above_us = to_number(json.at("drop_above_us"));
  json.at("quick_samples").get_to(policy.quick_samples);
  json.at("min_samples").get_to(policy.min_samples);
  json.at("max_samples").get_to(policy.max_samples);
  json.at("relative_width").get_to(policy.relative_width);
  json.at("time_limit_s").get_to(policy.time_limit_s);
  policy.prove_below_us = to_number(json.at("prove_below_us"));
}

void to_json(Json& json, const DuelPolicy& policy) {
  json = {{"rounds", policy.rounds},
          {"timing", timing_name(policy.timing)},
          {"sample_us", policy.sample_us},
          {"settling_s", policy.settling_s},
          {"proves", policy.proves}};
}
void from_json(const Json& json, DuelPolicy& policy) {
  json.at("rounds").get_to(policy.rounds);
  policy.timing = timing_from_json(json.at("timing"));
  json.at("sample_us").get_to(policy.sample_us);
  json.at("settling_s").get_to(policy.settling_s);
  json.at("proves").get_to(policy.proves);
}

void to_json(Json& json, const Measurement& measurement) {
  json = {{"median_us", measurement.median_us},
          {"low_us", measurement.low_us},
          {"high_us", measurement.high_us},
          {"samples_us", measurement.samples_us},
          {"sm_clock_mhz", measurement.sm_clock_mhz},
          {"memory_clock_mhz", measurement.memory_clock_mhz},
          {"temperature_c", measurement.temperature_c},
          {"throttled", measurement.throttled},
          {"settled", measurement.settled},
          {"follows_clock", measurement.follows_clock}};
}

void from_json(const Json& json, Measurement& measurement) {
  json.at("median_us").get_to(measurement.median_us);
  json.at("low_us").get_to(measurement.low_us);
  json.at("high_us").get_to(measurement.high_us);
  json.at("samples_us").get_to(measurement.samples_us);
  json.at("sm_clock_mhz").get_to(measurement.sm_clock_mhz);
  json.at("memory_clock_mhz").get_to(measurement.memory_clock_mhz);
  json.at("temperature_c").get_to(measurement.temperature_c);
  json.at("throttled").get_to(measurement.throttled);
  json.at("settled").get_to(measurement.settled);
  json.at("follows_clock").get_to(measurement.follows_clock);
}

void to_json(Json& json, const TrialResult& result) {
  json = {{"outcome", outcome_name(result.outcome)},
          {"message", result.message},
          {"measurement", result.measurement},
          {"max_error", from_number(result.max_error)},
          {"dissimilarity", from_number(result.dissimilarity)},
          {"error_share", from_number(result.error_share)},
          {"validate_s", result.validate_s},
          {"measure_s", result.measure_s}};
}

void from_json(const Json& json, TrialResult& result) {
  const auto& name = json.at("outcome").get_ref<const std::string&>();
  const std::optional<Outcome> outcome = outcome_from_name(name);
  if (!outcome) throw std::runtime_error("unknown outcome '" + name + "'");
  result.outcome = *outcome;
  json.at("message").get_to(result.message);
  json.at("measurement").get_to(result.measurement);
  result.max_error = to_number(json.at("max_error"));
  result.dissimilarity = to_number(json.at("dissimilarity"));
  result.error_share = to_number(json.at("error_share"));
  json.at("validate_s").get_to(result.validate_s);
  json.at("measure_s").get_to(result.measure_s);
}

void to_json(Json& json, const RunReply& reply) {
  json = {{"result", reply.result},
          {"damaged", reply.damaged},
          {"context_lost", reply.context_lost},
          {"suspect", reply.suspect}};
}

void from_json(const Json& json, RunReply& reply) {
  json.at("result").get_to(reply.result);
  json.at("damaged").get_to(reply.damaged);
  json.at("context_lost").get_to(reply.context_lost);
  json.at("suspect").get_to(reply.suspect);
}

void to_json(Json& json, const CanaryReply& reply) {
  const CanaryReading& reading = reply.reading;
  json = {{"elapsed_us", reading.elapsed_us},
          {"lost_us", reading.lost_us},
          {"longest_gap_us", reading.longest_gap_us},
          {"slow_share", reading.slow_share},
          {"windows_per_us", reading.windows_per_us},
          {"throttled", reading.throttled},
          {"failure", reply.failure}};
  if (reading.other_processes) json["other_processes"] = *reading.other_processes;
}

void from_json(const Json& json, CanaryReply& reply) {
  CanaryReading& reading = reply.reading;
  json.at("elapsed_us").get_to(reading.elapsed_us);
  json.at("lost_us").get_to(reading.lost_us);
  json.at("longest_gap_us").get_to(reading.longest_gap_us);
  json.at("slow_share").get_to(reading.slow_share);
  json.at("windows_per_us").get_to(reading.windows_per_us);
  json.at("throttled").get_to(reading.throttled);
  json.at("failure").get_to(reply.failure);
  if (json.contains("other_processes")) reading.other_processes = json.at("other_processes").get<int>();
}

}  // namespace moetune
