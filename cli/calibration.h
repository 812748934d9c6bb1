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

// Their names in the cache; the tune loop reads the first.
inline constexpr const char* kReadCeiling = "read_tb_s";
inline constexpr const char* kCopyCeiling = "copy_tb_s";

struct Ceilings {
  std::optional<double> read_tb_s;  // a pure read
  std::optional<double> copy_tb_s;  // read and write together
};

Ceilings stored_ceilings(const Cache* cache, const HardwareKey& hardware);

// Tunes both streams on `device`, stores what was reached and returns it; a stop request leaves the rest
// unknown. Notes the figures as it goes. Throws BrokenEnvironment where the device cannot be used or no
// configuration works.
Ceilings calibrate(const DeviceInfo& device, const CacheChoice& cache, const Output& output,
                   std::stop_token stop);

}  // namespace moetune
