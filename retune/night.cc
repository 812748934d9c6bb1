#include "retune/night.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "jobs/stores.h"
#include "retune/device_night.h"
#include "retune/host_devices.h"
#include "retune/shard.h"
#include "retune/stale_ranges.h"
#include "retune/team.h"

namespace moetune {
namespace {

constexpr std::size_t kBrokenInARow = 3;  // then the device is at fault, and not a workload

std::uint64_t threads_of_each(std::uint64_t asked, std::size_t devices) {
  if (asked > 0 || devices < 2) return asked;
  return std::max<std::uint64_t>(1, std::thread::hardware_concurrency() / devices);
}

class Night {
 public:
  Night(const NightRequest& request, const JobContext& context, const NightListener& listener,
        const ReworkListener& ended)
      : request_(request),
        listener_(listener),
        ended_(ended),
        shared_{.request = request,
                .context = context,
                .emit = [this](const char* name, const Document& more) { emit(name, more); }} {
    if (request.search.target.cache.none)
      throw BadField("no_cache", "a night needs a cache: it stores what it finds");
    // Several jobs speak, one at a time.
    if (context.events.listener)
      shared_.context.events.listener = [this, listener = context.events.listener](const Event& event) {
        const std::lock_guard lock(speaking_);
        listener(event);
      };
  }

  NightResult run() {
    open_devices();
    teams_ = make_teams(devices_);
    if (!request_.dry_run) leave_out_unfit();
    make_plans();
    if (!request_.dry_run) work_all();
    result_.times = shared_.times.times();
    return std::move(result_);
  }

 private:
  void emit(const char* name, const Document& more) {
    if (!listener_) return;
    Document event = {{"event", name}, {"at", shared_.now()}};
    event.update(more);
    const std::lock_guard lock(speaking_);
    listener_(event);
  }

  void leave_out(const std::string& device, const std::string& why) {
    emit("device_left_out", {{"device", device}, {"why", why}, {"message", device + " is left out: " + why}});
    const std::lock_guard lock(results_);
    result_.left_out_devices.push_back({device, why});
  }

  // All at once: each starts the CUDA driver in a process, and NVRTC.
  void find_devices(const std::vector<NightDevice>& names) {
    devices_.resize(names.size());
    std::vector<std::exception_ptr> failed(names.size());
    std::map<std::string, std::size_t> seen;
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < names.size(); ++i) {
        threads.emplace_back([&, i, twin = seen[names[i].name]++] {
          try {
            devices_[i] =
                std::make_unique<DeviceNight>(shared_, names[i], names.size() > 1 ? i + 1 : 0, twin);
          } catch (...) {
            failed[i] = std::current_exception();
          }
        });
      }
    }
    for (const std::exception_ptr& error : failed)
      if (error != nullptr) std::rethrow_exception(error);
  }

  void open_devices() {
    find_devices(night_devices(request_.search.target.device));
    if (!request_.dry_run) {
      open_or_create_cache(request_.search.target.cache);  // its folder too, where the locks go
      if (!request_.is_locked) take_locks();
    }
    for (const auto& device : devices_) {
      device->read_ledger();
      result_.devices.push_back(device->name());
    }
    shared_.threads = threads_of_each(request_.search.threads, devices_.size());
    shared_.times.opened();
  }

  // A GPU that another night has is that night's; if it has all of them this one is too many.
  void take_locks() {
    const bool alone = devices_.size() == 1;
    std::string last;
    std::erase_if(devices_, [&](const std::unique_ptr<DeviceNight>& device) {
      try {
        device->take_lock();
        return false;
      } catch (const BrokenEnvironment& error) {
        if (alone) throw;
        last = error.what();
        leave_out(device->name(), last);
        return true;
      }
    });
    if (devices_.empty()) throw BrokenEnvironment(last);
  }

  void leave_out_unfit() {
    std::string last;
    for (Team& team : teams_) {
      const std::vector<DeviceNight*> all = team.devices;
      const std::vector<LeftOutDevice> unfit = take_out_unfit(team);
      if (shared_.context.stop.stop_requested()) {  // which is no device's fault
        team.devices = all;
        break;
      }
      for (const LeftOutDevice& one : unfit) leave_out(one.device, one.why);
      if (team.devices.empty()) last = unfit.front().why;
    }
    // Of another kind of GPU others may work.
    std::erase_if(teams_, [](const Team& team) { return team.devices.empty(); });
    if (teams_.empty() && !shared_.context.stop.stop_requested())
      throw BrokenEnvironment("no GPU works: " + last);
    shared_.times.compared();
  }

  void make_plans() {
    const std::unique_ptr<Cache> cache = open_existing_cache(request_.search.target.cache);
    const TuningWork work = work_of_shard(work_of(request_.list), request_.plan.shard, request_.plan.budget);
    for (Team& team : teams_) {
      Ledger known = team.devices.front()->ledger();
      for (DeviceNight* const device : team.devices) known.take_newer(device->ledger());
      KeyFinder& keys = team.devices.front()->keys();
      team.plan = make_plan(work.points, keys, cache.get(), known, request_.plan, shared_.now());
      plan_ranges(team.plan, work.ranges, keys, cache.get(), known, request_.plan, shared_.now());
      const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
      append(result_.plan.items, team.plan.items);
      append(result_.plan.fresh, team.plan.fresh);
      append(result_.plan.left_out, team.plan.left_out);
    }
    shared_.times.planned();
    emit("planned", plan_document(result_.plan));
  }

  void work_all() {
    std::size_t devices = 0;
    for (Team& team : teams_) {
      team.queue = std::make_unique<WorkQueue>(team.plan.items.size(), team.devices.size());
      team.found.resize(team.plan.items.size());
      devices += team.devices.size();
    }
    if (devices == 1) {
      tune_items(teams_.front(), 0);
    } else {
      work_at_once();
    }
    if (devices > 1) fail_what_is_lost();
    result_.interrupted = result_.interrupted || shared_.context.stop.stop_requested();
    emit("night_ended", {{"interrupted", result_.interrupted},
                         {"out_of_time", result_.out_of_time},
                         {"improved", result_.count(ReworkVerdict::improved)},
                         {"tuned", result_.count(ReworkVerdict::tuned)},
                         {"failures", result_.failures()}});
  }

  // Devices and what they share outlive the work, whatever it throws.
  void work_at_once() {
    std::vector<std::future<void>> ended;
    std::vector<std::jthread> threads;
    or_stop_all([&] {
      for (Team& team : teams_)
        for (std::size_t i = 0; i < team.devices.size(); ++i) {
          ended.push_back(
              team.devices[i]->lane().run([this, &team, i] { or_stop_all([&] { tune_items(team, i); }); }));
          if (team.devices.size() > 1)
            threads.emplace_back([this, &team, i] { or_stop_all([&] { check_winners(team, i); }); });
        }
    });
    threads.clear();
    for (const std::future<void>& one : ended) one.wait();
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

  // An exception that leaves a thread, as a listener's does, is the night's. The others may wait for its turn to end,
  // so they take nothing more.
  template <typename Work>
  void or_stop_all(const Work& work) {
    try {
      work();
    } catch (...) {
      for (const Team& team : teams_) team.queue->stop();
      const std::lock_guard lock(results_);
      if (error_ == nullptr) error_ = std::current_exception();
    }
  }

  bool is_over(WorkQueue& queue) {
    const std::lock_guard lock(results_);
    result_.interrupted = result_.interrupted || shared_.context.stop.stop_requested();
    result_.out_of_time = result_.out_of_time || shared_.out_of_time();
    if (!result_.interrupted && !result_.out_of_time) return false;
    queue.stop();
    return true;
  }

  // A device's thread.
  void tune_items(Team& team, std::size_t position) {
    std::size_t broken_in_a_row = 0;
    while (!is_over(*team.queue)) {
      if (!team.queue->has_item(position)) team.devices[position]->close_idle();
      const std::optional<WorkQueue::Turn> turn = team.queue->take(position);
      if (!turn) break;
      const double from = shared_.times.now();
      const std::string broken = rework_one(team, position, *turn);
      shared_.times.worked(team.devices[position]->name(), from);
      if (has_ended(team, position, broken, broken_in_a_row)) break;
    }
  }

  // Another one, while its searches wait for their compilers: a winner that is slower here is not to stay long.
  void check_winners(Team& team, std::size_t position) {
    std::size_t broken_in_a_row = 0;
    while (!is_over(*team.queue)) {
      if (team.queue->expects_check(position))
        team.devices[position]->prepare_confirm(team.plan.items.front().point);
      const std::optional<WorkQueue::Turn> turn = team.queue->take_check(position);
      if (!turn) break;
      const double from = shared_.times.now();
      const std::string broken = confirm(team, *team.devices[position], turn->item);
      shared_.times.checked(team.devices[position]->name(), from);
      team.queue->done(position, *turn);
      if (has_ended(team, position, broken, broken_in_a_row)) break;
    }
    team.devices[position]->end_confirms();
  }

  // Whether the device is done for: `broken` says why its last turn broke down, "" if it did not.
  bool has_ended(const Team& team, std::size_t position, const std::string& broken,
                 std::size_t& broken_in_a_row) {
    DeviceNight& device = *team.devices[position];
    broken_in_a_row = broken.empty() ? 0 : broken_in_a_row + 1;
    if (broken.empty() || !has_failed(team, device, broken_in_a_row)) return false;
    if (team.queue->leave(position) && team.devices.size() > 1) leave_out(device.name(), broken);
    if (team.queue->devices_left() == 0) {
      const std::lock_guard lock(results_);
      result_.broken = broken;
    }
    return true;
  }

  // Whether the device is at fault and not its workloads. One with siblings is looked at as soon as it breaks down.
  bool has_failed(const Team& team, DeviceNight& device, std::size_t broken_in_a_row) const {
    if (broken_in_a_row >= kBrokenInARow) return true;
    if (team.devices.size() < 2) return false;
    try {
      device.canary_rate();
      return false;
    } catch (const BrokenEnvironment&) {
      return true;
    } catch (const Stopped&) {
      return false;
    }
  }

  // Why the device broke down under it; "" if it did not.
  std::string rework_one(Team& team, std::size_t position, const WorkQueue::Turn& turn) {
    DeviceNight& device = *team.devices[position];
    const PlanItem& item = team.plan.items[turn.item];
    Document began = item_document(item);
    began["device"] = device.name();
    emit("began", began);
    Reworked reworked{.item = item, .device = device.name()};
    const auto begin = NightShared::Clock::now();
    std::string broken;
    bool taken_on = false;
    try {
      reworked.result = device.rework(item);
      const ReworkVerdict verdict = reworked.result.verdict;
      team.found[turn.item] = reworked.result;
      team.queue->done(position, turn,
                       (verdict == ReworkVerdict::tuned || verdict == ReworkVerdict::improved) &&
                           !reworked.result.served.empty());
    } catch (const BrokenEnvironment& error) {
      broken = error.what();
      taken_on = team.queue->failed(position, turn);
    } catch (const std::exception& error) {  // bad input of this workload; whatever else is its failure alone
      reworked.result = {.verdict = ReworkVerdict::failed, .reason = error.what()};
      team.queue->done(position, turn);
    }
    if (taken_on) {
      emit("given_on", {{"device", device.name()},
                        {"kernel", item.point.kernel},
                        {"problem", item.point.problem},
                        {"message", device.name() + " broke down under " + item.point.kernel + " " +
                                        item.point.problem + "; another takes it: " + broken}});
      return broken;
    }
    if (!broken.empty()) reworked.result = {.verdict = ReworkVerdict::failed, .reason = broken};
    reworked.seconds = std::chrono::duration<double>(NightShared::Clock::now() - begin).count();
    report(std::move(reworked));
    return broken;
  }

  void report(Reworked reworked) {
    emit("ended", reworked_document(reworked));
    {
      const std::lock_guard lock(speaking_);
      if (ended_) ended_(reworked);
    }
    const std::lock_guard lock(results_);
    result_.reworked.push_back(std::move(reworked));
  }

  std::string confirm(const Team& team, DeviceNight& device, std::size_t position) {
    const PlanItem& item = team.plan.items[position];
    Confirmed confirmed{.point = item.point, .device = device.name()};
    std::string broken;
    try {
      confirmed = device.confirm(item, team.found[position]);
    } catch (const BrokenEnvironment& error) {
      confirmed.reason = broken = error.what();
    } catch (const Stopped&) {
      confirmed.reason = "stopped";
    } catch (const std::exception& error) {  // a workload that is none here
      confirmed.reason = error.what();
    }
    emit("confirmed", confirmed_document(confirmed));
    const std::lock_guard lock(results_);
    result_.confirmed.push_back(confirmed);
    return broken;
  }

  void fail_what_is_lost() {
    for (Team& team : teams_) {
      for (const std::size_t position : team.queue->lost())
        report({.item = team.plan.items[position],
                .result = {.verdict = ReworkVerdict::failed, .reason = "no device was left for it"}});
    }
  }

  const NightRequest& request_;
  const NightListener& listener_;
  const ReworkListener& ended_;
  NightShared shared_;
  std::vector<Team> teams_;
  std::mutex speaking_, results_;
  NightResult result_;
  std::exception_ptr error_;                           // the first that left a device's thread
  std::vector<std::unique_ptr<DeviceNight>> devices_;  // last: their lanes use all else
};

}  // namespace

std::size_t NightResult::count(ReworkVerdict verdict) const {
  return static_cast<std::size_t>(std::count_if(
      reworked.begin(), reworked.end(), [&](const Reworked& one) { return one.result.verdict == verdict; }));
}

std::size_t NightResult::failures() const { return count(ReworkVerdict::failed) + plan.left_out.size(); }

NightResult run_night(const NightRequest& request, const JobContext& context, const NightListener& listener,
                      const ReworkListener& ended) {
  return Night(request, context, listener, ended).run();
}

}  // namespace moetune
