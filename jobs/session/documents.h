// The pieces of the JSON documents that several commands print. A figure that is not known is null, never 0.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "jobs/session/subject.h"
#include "ranges/range_table.h"
#include "tuner/tune.h"

namespace moetune {

using Document = nlohmann::ordered_json;

Document number_or_null(double value);  // null unless finite and positive
Document number_or_null(std::optional<double> value);
Document text_or_null(const std::string& text);
Document assignment_document(const Assignment& assignment);  // {"tile": 64, "loader": "tma"}
Document device_document(const DeviceInfo& info);
Document subject_document(const Subject& subject);  // kernel, problem and device: how most documents begin
Document counts_document(const TrialCounts& counts);
Document time_document(const TimeSpent& time);
// tb_s or tflop_s, whichever binds; the roofline fraction and the name of the ceiling that it is of.
Document speed_document(const Work& work, const std::optional<Floor>& floor, double time_us);
Document contention_document(const Contention& contention);  // null for a recording
Document certificate_document(const RangeCertificate& seen);
// The winner's time and the fastest configuration by timing, and `differs`: the timings that have another winner. Null
// if they are not known.
Document timings_document(const std::vector<TimingResult>& timings, std::string_view winner);
// config, outcome, time_us (or the figure of another objective), message, resumed, contended
Document trial_document(const Trial& trial, const std::optional<Objective>& objective = std::nullopt);

}  // namespace moetune
