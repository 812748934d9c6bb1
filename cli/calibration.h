// The memory ceilings of a GPU, measured once with decode_kernel and kept in the cache: what roofline
// fractions are fractions of.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "cache/cache.h"
#include "cli/options.h"
#include "cli/output.h"
#include "tuner/device.h"

namespace moetune {

struct Ceilings {
  std::optional<double> read_tb_s;  // a pure read
  std::optional<double> copy_tb_s;  // read and write together
};

Ceilings stored_ceilings(const Cache* cache, const HardwareKey& hardware);

// Tunes both streams on `device` and stores what was reached. Notes the figures as it goes. Throws
// BrokenEnvironment where the device cannot be used or no configuration works.
void calibrate(const DeviceInfo& device, const CacheChoice& cache, const Output& output,
               std::stop_token stop);

}  // namespace moetune
