// What a job worked on, as plain data: the workload, the device, and what their figures are compared with.
// Part of every job's result.
#pragma once

#include <optional>
#include <string>

#include "launch/device_info.h"
#include "search/assignment.h"

namespace moetune {

struct Subject {
  std::string kernel;
  std::string problem;  // as it is keyed: of a kernel that is not moetune's, what its recording says
  Assignment dimensions;
  DeviceInfo device;
  std::string cache;                 // the file; empty without one
  double bytes = 0;                  // the least that must move; 0 if unknown
  std::optional<double> floor_us;    // the least time that the ceilings allow; nullopt before a calibration
  std::optional<double> optimum_us;  // the best time of a recording; nullopt on a GPU

  double tb_s(double time_us) const { return time_us > 0 ? bytes / time_us * 1e-6 : 0; }
  std::optional<double> roofline(double time_us) const {
    return floor_us && time_us > 0 ? std::optional(*floor_us / time_us) : std::nullopt;
  }
};

}  // namespace moetune
