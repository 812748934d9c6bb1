#include "retune/host_devices.h"

#include <set>

#include "base/error.h"
#include "base/lists.h"
#include "base/statistics.h"
#include "jobs/session/device_choice.h"
#include "jobs/session/gpu_choice.h"

namespace moetune {

std::vector<NightDevice> night_devices(const std::string& text) {
  std::vector<NightDevice> devices;
  if (text == "all" || text == "auto") {
    const CudaDeviceList list = list_gpus();
    for (const DeviceInfo& gpu : list.devices) devices.push_back({gpu.id, gpu});
    if (devices.empty()) throw BrokenEnvironment(no_gpu_text("retune", list.why_empty, true));
    return devices;
  }
  std::set<std::string> gpus;
  std::optional<CudaDeviceList> list;
  for (const std::string_view each : split(text, ',')) {
    const std::string part(each);
    devices.push_back({part, std::nullopt});
    if (part.starts_with("replay:")) require_recording(part);
    if (part.starts_with("replay:") || text == part) continue;
    if (!is_gpu_name(part))
      throw BadField("device", "'" + part + "' in a list is no GPU; it would be cuda:0,cuda:1 or all");
    if (!list) list = list_gpus();
    const DeviceInfo& gpu = list->devices[named_gpu(list->devices, part)];
    devices.back() = {gpu.id, gpu};
    if (!gpus.insert(gpu.id).second) throw BadField("device", "'" + part + "' names a GPU that the list has already");
  }
  return devices;
}

std::vector<std::size_t> slow_siblings(const std::vector<std::optional<double>>& rates) {
  std::vector<std::size_t> slow;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    std::vector<double> others;
    for (std::size_t j = 0; j < rates.size(); ++j)
      if (j != i && rates[j]) others.push_back(*rates[j]);
    if (rates[i] && !others.empty() && *rates[i] <= (1 - kSlowSibling) * median_of(others)) slow.push_back(i);
  }
  return slow;
}

}  // namespace moetune
