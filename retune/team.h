// Devices of one kind, which share a plan and its winners. Owned by the night (night.cc).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "retune/device_night.h"
#include "retune/work_queue.h"

namespace moetune {

struct Team {
  std::vector<DeviceNight*> devices;
  NightPlan plan;
  std::unique_ptr<WorkQueue> queue;
  std::vector<ReworkResult> found;  // by item
};

std::vector<Team> make_teams(const std::vector<std::unique_ptr<DeviceNight>>& devices);

// Opens the devices, all at once, and takes those out that do not work, or are slower than their siblings: returned,
// with the reason. A device that is alone is neither opened nor taken out.
std::vector<LeftOutDevice> take_out_unfit(Team& team);

}  // namespace moetune
