#include "tuner/worker/worker_messages.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "base/error.h"
#include "kernels/limits_json.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

// JSON has no infinity; nothing here is minus infinity or NaN for a reason that must survive.
Json json_of_value(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json json_of_value(Timing timing) { return timing_name(timing); }
Json json_of_value(Outcome outcome) { return outcome_name(outcome); }
template <typename T>
Json json_of_value(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
template <typename T>
Json json_of_value(const T& value) {
  return value;
}

void take_value(const Json& json, double& value) {
  value = json.is_null() ? std::numeric_limits<double>::infinity() : json.get<double>();
}
void take_value(const Json& json, Timing& timing) { timing = timing_from_json(json); }
void take_value(const Json& json, Outcome& outcome) {
  const auto& name = json.get_ref<const std::string&>();
  const std::optional<Outcome> known = outcome_from_name(name);
  if (!known) throw std::runtime_error("unknown outcome '" + name + "'");
  outcome = *known;
}
template <typename T>
void take_value(const Json& json, std::optional<T>& value) {
  if (!json.is_null()) value = json.get<T>();
}
template <typename T>
void take_value(const Json& json, T& value) {
  json.get_to(value);
}

template <typename Owner, typename T>
struct Member {
  const char* name;
  T Owner::*value;
};

template <typename Owner, typename... T>
void write_members(Json& json, const Owner& owner, const std::tuple<Member<Owner, T>...>& members) {
  std::apply([&](const auto&... one) { ((json[one.name] = json_of_value(owner.*one.value)), ...); }, members);
}

template <typename Owner, typename... T>
void read_members(const Json& json, Owner& owner, const std::tuple<Member<Owner, T>...>& members) {
  std::apply([&](const auto&... one) { (take_value(json.at(one.name), owner.*one.value), ...); }, members);
}

constexpr auto kKey = std::tuple(Member{"name", &HardwareKey::name}, Member{"sm_clock_khz", &HardwareKey::sm_clock_khz},
                                 Member{"memory_clock_khz", &HardwareKey::memory_clock_khz},
                                 Member{"origin", &HardwareKey::origin}, Member{"driver", &HardwareKey::driver});
constexpr auto kSettings = std::tuple(Member{"power_limit_w", &GpuSettings::power_limit_w},
                                      Member{"mig", &GpuSettings::mig}, Member{"ecc", &GpuSettings::ecc});
constexpr auto kLoad =
    std::tuple(Member{"foreign_processes", &GpuLoad::foreign_processes}, Member{"free_bytes", &GpuLoad::free_bytes});
constexpr auto kDevice =
    std::tuple(Member{"limits", &DeviceInfo::limits}, Member{"memory_bus_bits", &DeviceInfo::memory_bus_bits},
               Member{"architecture", &DeviceInfo::architecture}, Member{"id", &DeviceInfo::id},
               Member{"pci_bus_id", &DeviceInfo::pci_bus_id}, Member{"uuid", &DeviceInfo::uuid},
               Member{"load", &DeviceInfo::load}, Member{"settings", &DeviceInfo::settings});
constexpr auto kMeasurePolicy = std::tuple(
    Member{"timing", &MeasurePolicy::timing}, Member{"drop_above_us", &MeasurePolicy::drop_above_us},
    Member{"quick_samples", &MeasurePolicy::quick_samples}, Member{"min_samples", &MeasurePolicy::min_samples},
    Member{"max_samples", &MeasurePolicy::max_samples}, Member{"relative_width", &MeasurePolicy::relative_width},
    Member{"time_limit_s", &MeasurePolicy::time_limit_s}, Member{"prove_below_us", &MeasurePolicy::prove_below_us});
constexpr auto kDuelPolicy =
    std::tuple(Member{"rounds", &DuelPolicy::rounds}, Member{"timing", &DuelPolicy::timing},
               Member{"sample_us", &DuelPolicy::sample_us}, Member{"settling_s", &DuelPolicy::settling_s},
               Member{"proves", &DuelPolicy::proves});
constexpr auto kMeasurement = std::tuple(
    Member{"median_us", &Measurement::median_us}, Member{"low_us", &Measurement::low_us},
    Member{"high_us", &Measurement::high_us}, Member{"samples_us", &Measurement::samples_us},
    Member{"sm_clock_mhz", &Measurement::sm_clock_mhz}, Member{"memory_clock_mhz", &Measurement::memory_clock_mhz},
    Member{"temperature_c", &Measurement::temperature_c}, Member{"throttled", &Measurement::throttled},
    Member{"settled", &Measurement::settled}, Member{"follows_clock", &Measurement::follows_clock});
constexpr auto kTrialResult =
    std::tuple(Member{"outcome", &TrialResult::outcome}, Member{"message", &TrialResult::message},
               Member{"measurement", &TrialResult::measurement}, Member{"max_error", &TrialResult::max_error},
               Member{"dissimilarity", &TrialResult::dissimilarity}, Member{"error_share", &TrialResult::error_share},
               Member{"validate_s", &TrialResult::validate_s}, Member{"measure_s", &TrialResult::measure_s});
constexpr auto kRunReply =
    std::tuple(Member{"result", &RunReply::result}, Member{"damaged", &RunReply::damaged},
               Member{"context_lost", &RunReply::context_lost}, Member{"suspect", &RunReply::suspect});
constexpr auto kReading = std::tuple(
    Member{"elapsed_us", &CanaryReading::elapsed_us}, Member{"lost_us", &CanaryReading::lost_us},
    Member{"longest_gap_us", &CanaryReading::longest_gap_us}, Member{"slow_share", &CanaryReading::slow_share},
    Member{"windows_per_us", &CanaryReading::windows_per_us}, Member{"throttled", &CanaryReading::throttled},
    Member{"other_processes", &CanaryReading::other_processes});

}  // namespace

Timing timing_from_json(const Json& json) {
  const auto name = json.get<std::string>();
  if (const std::optional<Timing> timing = timing_from_name(name)) return *timing;
  throw BadInput("the worker knows no timing '" + name + "'");
}

static void to_json(Json& json, const GpuSettings& settings) { write_members(json, settings, kSettings); }
static void from_json(const Json& json, GpuSettings& settings) { read_members(json, settings, kSettings); }
static void to_json(Json& json, const GpuLoad& load) { write_members(json, load, kLoad); }
static void from_json(const Json& json, GpuLoad& load) { read_members(json, load, kLoad); }

// The key shares its figures with the limits.
void to_json(Json& json, const DeviceInfo& info) {
  write_members(json, info.key, kKey);
  write_members(json, info, kDevice);
}

void from_json(const Json& json, DeviceInfo& info) {
  read_members(json, info.key, kKey);
  read_members(json, info, kDevice);
  HardwareKey& key = info.key;
  key.compute_capability = info.limits.compute_capability;
  key.sm_count = info.limits.sm_count;
  key.l2_bytes = info.limits.l2_bytes;
  key.memory_bytes = info.limits.memory_bytes;
}

void to_json(Json& json, const MeasurePolicy& policy) { write_members(json, policy, kMeasurePolicy); }
void from_json(const Json& json, MeasurePolicy& policy) { read_members(json, policy, kMeasurePolicy); }

void to_json(Json& json, const DuelPolicy& policy) { write_members(json, policy, kDuelPolicy); }
void from_json(const Json& json, DuelPolicy& policy) { read_members(json, policy, kDuelPolicy); }

void to_json(Json& json, const Measurement& measurement) { write_members(json, measurement, kMeasurement); }
void from_json(const Json& json, Measurement& measurement) { read_members(json, measurement, kMeasurement); }

void to_json(Json& json, const TrialResult& result) { write_members(json, result, kTrialResult); }
void from_json(const Json& json, TrialResult& result) { read_members(json, result, kTrialResult); }

void to_json(Json& json, const RunReply& reply) { write_members(json, reply, kRunReply); }
void from_json(const Json& json, RunReply& reply) { read_members(json, reply, kRunReply); }

void to_json(Json& json, const CanaryReply& reply) {
  write_members(json, reply.reading, kReading);
  json["failure"] = reply.failure;
}
void from_json(const Json& json, CanaryReply& reply) {
  read_members(json, reply.reading, kReading);
  json.at("failure").get_to(reply.failure);
}

}  // namespace moetune
