#include "retune/team.h"

#include <algorithm>
#include <future>
#include <map>

#include "base/format.h"

namespace moetune {

std::vector<Team> make_teams(const std::vector<std::unique_ptr<DeviceNight>>& devices) {
  std::vector<Team> teams;
  std::map<std::string, std::size_t> by_kind;
  for (const auto& device : devices) {
    const auto [found, is_new] = by_kind.emplace(device->kind(), teams.size());
    if (is_new) teams.emplace_back();
    teams[found->second].devices.push_back(device.get());
  }
  return teams;
}

std::vector<LeftOutDevice> take_out_unfit(Team& team) {
  std::vector<LeftOutDevice> unfit;
  if (team.devices.size() < 2) return unfit;
  std::vector<std::optional<double>> rates(team.devices.size());
  std::vector<std::future<void>> opened;
  for (std::size_t i = 0; i < team.devices.size(); ++i)
    opened.push_back(team.devices[i]->lane().run([&, i] { rates[i] = team.devices[i]->open_and_compare(); }));
  for (const std::future<void>& one : opened) one.wait();  // they use what is here
  const std::vector<std::size_t> slow = slow_siblings(rates);
  const double best = std::max_element(rates.begin(), rates.end())->value_or(0);
  std::vector<DeviceNight*> fit;
  for (std::size_t i = 0; i < team.devices.size(); ++i) {
    DeviceNight* const device = team.devices[i];
    try {
      opened[i].get();
    } catch (const std::exception& error) {  // a device that does not work, and Stopped
      unfit.push_back({device->name(), error.what()});
      continue;
    }
    if (std::find(slow.begin(), slow.end(), i) == slow.end()) {
      fit.push_back(device);
    } else {
      device->close_idle();  // its worker would hold memory of the GPU all night
      unfit.push_back({device->name(), format("its canary is %.1f%% slower than that of its siblings",
                                              100 * (1 - *rates[i] / best))});
    }
  }
  team.devices = std::move(fit);
  return unfit;
}

}  // namespace moetune
