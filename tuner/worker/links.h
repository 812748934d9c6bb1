// Measures the machine around a GPU: copies between it, the host's memory and other GPUs, and the cost of launches. The
// figures of kCeilingFigures (tuner/ceilings.h) that no kernel is tuned for.
//
// Runs in the worker with the GPU's context current; not thread-safe. Takes some seconds.
#pragma once

#include <map>
#include <string>

#include "launch/device_info.h"
#include "launch/driver.h"
#include "tuner/device.h"
#include "tuner/worker/harness.h"

namespace moetune {

// A figure that cannot be measured is a failure. One that this machine has no use for is left out: other nodes' on a
// machine with one NUMA node, peers' where no other GPU can be reached.
MachineFigures measure_machine(const cuda::Context& context, const DeviceInfo& info, Harness& harness,
                               const cuda::Stream& stream);

}  // namespace moetune
