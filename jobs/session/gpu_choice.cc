#include "jobs/session/gpu_choice.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "base/format.h"
#include "base/lists.h"

namespace moetune {
namespace {

constexpr std::string_view kCuda = "cuda:";
constexpr std::string_view kUuids[] = {"gpu-", "mig-"};

struct PciId {
  std::optional<unsigned> domain;
  unsigned bus = 0, device = 0, function = 0;
};

// One hexadecimal number up to `end` (or to the text's end for '\0'); takes it off the text.
std::optional<unsigned> take_hex(std::string_view& text, char end) {
  const std::size_t length = end == '\0' ? text.size() : text.find(end);
  if (length == std::string_view::npos || length == 0) return std::nullopt;
  unsigned value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + length, value, 16);
  if (error != std::errc() || stop != text.data() + length) return std::nullopt;
  text.remove_prefix(std::min(text.size(), length + 1));
  return value;
}

std::optional<PciId> parse_pci(const std::string& name) {
  std::string_view text = name;
  PciId id;
  if (std::count(text.begin(), text.end(), ':') == 2) {
    id.domain = take_hex(text, ':');
    if (!id.domain) return std::nullopt;
  }
  const std::optional<unsigned> bus = take_hex(text, ':');
  const std::optional<unsigned> device = bus ? take_hex(text, '.') : std::nullopt;
  const std::optional<unsigned> function = device ? take_hex(text, '\0') : std::nullopt;
  if (!function) return std::nullopt;
  id.bus = *bus;
  id.device = *device;
  id.function = *function;
  return id;
}

bool is_at(const DeviceInfo& gpu, const PciId& wanted) {
  const std::optional<PciId> here = parse_pci(gpu.pci_bus_id);
  return here && (!wanted.domain || wanted.domain == here->domain) &&
         std::tuple(wanted.bus, wanted.device, wanted.function) == std::tuple(here->bus, here->device, here->function);
}

bool is_uuid(const std::string& text) {
  const std::string lower = lower_case(text);
  return std::any_of(std::begin(kUuids), std::end(kUuids),
                     [&](std::string_view prefix) { return lower.starts_with(prefix); });
}

bool is_named(const DeviceInfo& gpu, const std::string& text) {
  if (text.starts_with(kCuda)) return gpu.id == text;
  if (is_uuid(text)) return lower_case(gpu.uuid).starts_with(lower_case(text));
  const std::optional<PciId> pci = parse_pci(text);
  return pci && is_at(gpu, *pci);
}

std::string listed(const std::vector<DeviceInfo>& gpus) {
  if (gpus.empty()) return "no GPU";
  return joined(gpus, ", ",
                [](const DeviceInfo& gpu) { return gpu.id + " (" + gpu.pci_bus_id + ", " + gpu.uuid + ")"; });
}

}  // namespace

bool is_gpu_name(const std::string& text) {
  if (!text.starts_with(kCuda)) return is_uuid(text) || parse_pci(text);
  unsigned ordinal = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + kCuda.size(), end, ordinal);
  if (error == std::errc() && stop == end && text == std::string(kCuda) + std::to_string(ordinal)) return true;
  throw BadField("device", "'" + text + "' names no GPU; they are cuda:0, cuda:1, ...");
}

std::string named_slice(const std::string& text) { return lower_case(text).starts_with("mig-") ? text : ""; }

std::size_t named_gpu(const std::vector<DeviceInfo>& gpus, const std::string& text) {
  std::vector<DeviceInfo> found;
  std::size_t position = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (!is_named(gpus[i], text)) continue;
    position = i;
    found.push_back(gpus[i]);
  }
  if (found.empty()) throw BrokenEnvironment("there is no " + text + "; the driver finds " + listed(gpus));
  if (found.size() > 1) throw BadField("device", "'" + text + "' is ambiguous: " + listed(found));
  return position;
}

std::size_t idlest_gpu(const std::vector<DeviceInfo>& gpus) {
  const auto rank = [](const DeviceInfo& gpu) {
    const GpuLoad load = gpu.load.value_or(GpuLoad{});
    return std::pair(load.foreign_processes > 0, -load.free_bytes);
  };
  const auto idlest =
      std::ranges::min_element(gpus, [&](const DeviceInfo& a, const DeviceInfo& b) { return rank(a) < rank(b); });
  return static_cast<std::size_t>(idlest - gpus.begin());
}

}  // namespace moetune
