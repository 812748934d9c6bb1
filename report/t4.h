// The trials of one workload in T4, the results format of the auto-tuning community, which Kernel Tuner and KTT write
// and autotuning_methodology reads: one file for one kernel, problem and device. Times are in milliseconds, as Kernel
// Tuner's are. Kernel, problem and 95% interval, for which T4 has no field, stand beside its fields, which T4 allows.
//
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "cache/cache.h"
#include "jobs/session/documents.h"

namespace moetune {

inline constexpr const char* kT4Version = "1.0.0";

// A configuration that cannot be read is left out.
Document t4_document(const WorkloadKey& key, const std::vector<TrialRecord>& trials);

// "decode_attention-12.t4.json"; characters that no file should have become '_'.
std::string t4_file_name(const Workload& workload);

}  // namespace moetune
