#include "keys/key.h"

#include <tuple>

namespace moetune {
namespace {

// So that no name can pass for another field.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == ',' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

std::string HardwareKey::text() const {
  return escaped(name) + ",cc=" + std::to_string(compute_capability) + ",sms=" + std::to_string(sm_count) +
         ",l2=" + std::to_string(l2_bytes) + ",memory=" + std::to_string(memory_bytes) +
         ",sm_khz=" + std::to_string(sm_clock_khz) + ",memory_khz=" + std::to_string(memory_clock_khz) +
         ",origin=" + escaped(origin);
}

bool HardwareKey::is_same(const HardwareKey& other) const {
  const auto fields = [](const HardwareKey& key) {
    return std::tie(key.compute_capability, key.sm_count, key.l2_bytes, key.memory_bytes, key.sm_clock_khz,
                    key.memory_clock_khz, key.name, key.origin);
  };
  return fields(*this) == fields(other);
}

}  // namespace moetune
