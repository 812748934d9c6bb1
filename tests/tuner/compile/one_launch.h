// A plan of one launch, its build and a device, as the rules of static facts see them.
#pragma once

#include "kernels/limits.h"
#include "kernels/plan.h"
#include "tuner/compile/build.h"

namespace moetune {

struct OneLaunch {
  Plan plan;
  Build build;
  DeviceLimits limits = limits_of_architecture("sm_90a");

  OneLaunch(Launch launch, const EntryFacts& facts) {
    build.outcome = Outcome::ok;
    build.entries[launch.entry.text()] = facts;
    plan.launches.push_back(std::move(launch));
  }
  Launch& launch() { return plan.launches.front(); }
  EntryFacts& facts() { return build.entries.at(launch().entry.text()); }
};

}  // namespace moetune
