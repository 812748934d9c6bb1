// The subject of a job as plain data: the workload, the device, and the bounds that their figures are compared with.
// Part of every job's result.
#pragma once

#include <optional>
#include <string>

#include "launch/device_info.h"
#include "search/assignment.h"
#include "search/objective.h"
#include "tuner/ceilings.h"

namespace moetune {

struct Subject {
  std::string kernel;
  std::string problem;  // as it is keyed: of a kernel that is not moetune's, what its recording says
  Assignment dimensions;
  DeviceInfo device;
  std::string cache;                 // the file; empty without one
  Work work;                         // of one launch; 0 if unknown
  std::optional<Floor> floor;        // nullopt before a calibration
  std::optional<double> optimum_us;  // the best time of a recording; nullopt on a GPU
  // The objective of another tuner's results. If it is not a time, trials hold costs, not microseconds.
  std::optional<Objective> objective = {};

  bool holds_times() const { return !objective || objective->is_time(); }

  std::optional<double> roofline_fraction(double time_us) const {
    return floor && time_us > 0 ? std::optional(floor->roofline_fraction(time_us)) : std::nullopt;
  }
};

}  // namespace moetune
