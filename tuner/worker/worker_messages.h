// The values that tuner and worker exchange, as JSON. Values survive the round trip, infinities included.
//
// Requests are objects with an "op": hello, topology, open, run, duel, canary, machine, fetch; worker_session.cc answers
// each. Replies hold what was asked for, or {"error": {"kind", "message"}} where the environment ("environment", or
// "no_gpu") or the request ("request") is to blame. A candidate's failure is never an error: it is its
// result's outcome. Pure functions; thread-safe. Reading throws nlohmann::json::exception where the shape is
// wrong.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "kernels/kernel.h"
#include "tuner/device.h"

namespace moetune {

void to_json(nlohmann::json& json, const DeviceInfo& info);
void from_json(const nlohmann::json& json, DeviceInfo& info);
Timing timing_from_json(const nlohmann::json& json);  // throws BadInput
void to_json(nlohmann::json& json, const MeasurePolicy& policy);
void from_json(const nlohmann::json& json, MeasurePolicy& policy);
void to_json(nlohmann::json& json, const DuelPolicy& policy);
void from_json(const nlohmann::json& json, DuelPolicy& policy);
void to_json(nlohmann::json& json, const Measurement& measurement);
void from_json(const nlohmann::json& json, Measurement& measurement);
void to_json(nlohmann::json& json, const TrialResult& result);
void from_json(const nlohmann::json& json, TrialResult& result);

// A candidate's end, and what it left behind in the worker.
struct RunReply {
  TrialResult result;
  bool damaged = false;       // the problem's tensors must be made again
  bool context_lost = false;  // only a new worker helps
  bool suspect = false;       // the error may be the device's
};

void to_json(nlohmann::json& json, const RunReply& reply);
void from_json(const nlohmann::json& json, RunReply& reply);

// The canary's reading, unless it failed: only a new worker helps then.
struct CanaryReply {
  CanaryReading reading;
  std::string failure;  // "" if it has not
};

void to_json(nlohmann::json& json, const CanaryReply& reply);
void from_json(const nlohmann::json& json, CanaryReply& reply);

}  // namespace moetune
