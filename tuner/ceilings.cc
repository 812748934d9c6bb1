#include "tuner/ceilings.h"

namespace moetune {
namespace {

struct Figure {
  const char* name;  // in the cache
  std::optional<double> Ceilings::*value;
};

constexpr Figure kFigures[] = {{"read_tb_s", &Ceilings::read_tb_s},
                               {"copy_tb_s", &Ceilings::copy_tb_s},
                               {"launch_us", &Ceilings::launch_us}};

}  // namespace

std::optional<double> Ceilings::read_us(double bytes) const {
  if (!read_tb_s || !(*read_tb_s > 0) || !(bytes > 0)) return std::nullopt;
  return bytes / *read_tb_s * 1e-6;  // bytes / (TB/s) = 1e-12 s
}

std::optional<double> Ceilings::floor_us(double bytes) const {
  const std::optional<double> reading = read_us(bytes);
  return reading ? std::optional(*reading + launch_us.value_or(0)) : std::nullopt;
}

Ceilings stored_ceilings(const Cache* cache, const HardwareKey& hardware) {
  Ceilings stored;
  if (cache == nullptr) return stored;
  for (const Figure& figure : kFigures) stored.*figure.value = cache->calibration(hardware, figure.name);
  return stored;
}

void store_ceilings(Cache& cache, const HardwareKey& hardware, const Ceilings& ceilings) {
  for (const Figure& figure : kFigures) {
    if (const std::optional<double>& value = ceilings.*figure.value)
      cache.put_calibration(hardware, figure.name, *value);
  }
}

}  // namespace moetune
