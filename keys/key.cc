#include "keys/key.h"

#include <charconv>
#include <tuple>

namespace moetune {
namespace {

// So that no name can pass for another field.
void add_escaped(std::string& text, const std::string& value) {
  for (const char c : value) {
    if (c == ',' || c == '\\') text += '\\';
    text += c;
  }
}

void add(std::string& text, const char* name, std::int64_t value) {
  char digits[24];
  text.append(name).append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

}  // namespace

std::string HardwareKey::text() const {
  std::string text;
  text.reserve(128 + name.size() + origin.size());
  add_escaped(text, name);
  add(text, ",cc=", compute_capability);
  add(text, ",sms=", sm_count);
  add(text, ",l2=", l2_bytes);
  add(text, ",memory=", memory_bytes);
  add(text, ",sm_khz=", sm_clock_khz);
  add(text, ",memory_khz=", memory_clock_khz);
  text += ",origin=";
  add_escaped(text, origin);
  return text;
}

bool HardwareKey::is_same(const HardwareKey& other) const {
  const auto fields = [](const HardwareKey& key) {
    return std::tie(key.compute_capability, key.sm_count, key.l2_bytes, key.memory_bytes, key.sm_clock_khz,
                    key.memory_clock_khz, key.name, key.origin);
  };
  return fields(*this) == fields(other);
}

}  // namespace moetune
