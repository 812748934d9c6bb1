// The key of a stored result: everything that it is true of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "keys/timing.h"

namespace moetune {

// The hardware a time was measured on. Two GPUs with equal keys are interchangeable for tuning: an H200 never
// inherits an H100's result. `driver` is kept and shown, and is not part of the key.
struct HardwareKey {
  std::string name;            // as the driver gives it: "NVIDIA H200"
  int compute_capability = 0;  // 90
  int sm_count = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  int sm_clock_khz = 0;        // maximum
  int memory_clock_khz = 0;    // maximum
  std::string origin = "gpu";  // "gpu", or "replay:DIGEST" for a recording: never mixed with measured results
  std::string driver;          // "580.159.04"; not part of the key

  std::string text() const;  // canonical, without the driver
  // Whether both have one text().
  bool is_same(const HardwareKey& other) const;
};

struct WorkloadKey {
  std::string kernel;
  std::string problem;  // canonical text, dtype included
  HardwareKey hardware;
  std::string source_digest;  // of the templates that candidates compile from, with their headers
  std::string toolchain;      // "nvrtc 13.0.88"
  Timing timing = Timing::overlapped;
};

// Stands before the source digest of a recording in progress (`moetune record`). Its trials were measured by
// other rules than a search's, so they are a workload of their own: neither resumes the other's, and none of
// them counts as tuned.
inline constexpr std::string_view kRecordingMark = "recording:";

inline bool is_recording(const WorkloadKey& key) { return key.source_digest.starts_with(kRecordingMark); }

}  // namespace moetune
