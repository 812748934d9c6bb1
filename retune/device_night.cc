#include "retune/device_night.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "jobs/session/gpu_speed.h"
#include "kernels/registry.h"
#include "retune/session_subject.h"
#include "retune/stale_ranges.h"

namespace moetune {
namespace {

using Clock = NightShared::Clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

KeyFinder keys_of(const NightRequest& request) {
  const SearchRequest& search = request.search;
  return request.gpu ? KeyFinder(*request.gpu, search.no_compile, "retune")
                     : KeyFinder(search.target.device, search.no_compile, "retune");
}

std::size_t twin_of(const NightRequest& request) { return request.member ? request.member->twin : 0; }

// A workload's place among the locks of the cache.
std::int64_t lock_of(const PlanItem& item) {
  return SearchLocks::number_of(item.key.kernel + "\n" + item.key.problem + "\n" + item.key.hardware.text());
}

}  // namespace

// "moetune.db-retune-GPU-1234": a ledger and a lock for each GPU, because a process each may use them.
std::filesystem::path night_files(const std::filesystem::path& cache, const DeviceInfo* gpu, std::size_t twin) {
  std::string name = gpu == nullptr ? "recordings" : gpu->uuid.empty() ? gpu->id : gpu->uuid;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '/' || c == ' '; }, '-');
  return cache.string() + "-retune-" + name + (twin > 0 ? "-" + std::to_string(twin + 1) : "");
}

std::string night_device_name(const std::string& device, const DeviceInfo* gpu, std::size_t twin) {
  return (gpu != nullptr ? gpu->id : device) + (twin > 0 ? " (" + std::to_string(twin + 1) + ")" : "");
}

double NightShared::seconds_left() const { return request.time_s - seconds_since(begin); }

ReworkSettings NightShared::rework_settings() const {
  ReworkSettings settings = request.rework;
  if (request.time_s > 0)
    settings.deadline =
        begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(request.time_s));
  return settings;
}

DeviceNight::DeviceNight(NightShared& shared)
    : shared_(shared),
      keys_(keys_of(shared.request)),
      name_(night_device_name(shared.request.search.target.device, keys_.gpu(), twin_of(shared.request))),
      stem_(night_files(shared.request.search.target.cache.file(), keys_.gpu(), twin_of(shared.request))),
      held_(shared.request.search.target.cache.file()) {}

void DeviceNight::take_lock() {
  lock_.emplace(stem_, keys_.gpu() == nullptr ? "" : keys_.gpu()->uuid);
  if (!lock_->taken_over().empty()) shared_.emit("taken_over", {{"device", name_}, {"message", lock_->taken_over()}});
}

void DeviceNight::read_ledger() {
  ledger_.emplace(stem_.string() + ".json");
  if (!ledger_->damage().empty()) shared_.emit("ledger_damaged", {{"device", name_}, {"message", ledger_->damage()}});
  known_ = ledgers_beside(shared_.request.search.target.cache.file());
}

bool DeviceNight::hold(const PlanItem& item) { return held_.try_exclusive(lock_of(item)); }

void DeviceNight::release(const PlanItem& item) { held_.release_exclusive(lock_of(item)); }

bool DeviceNight::was_examined(const PlanItem& item) const {
  const std::optional<LedgerEntry> now = ledgers_beside(shared_.request.search.target.cache.file()).find(item.key);
  return now && !now->begun() && now != known_.find(item.key);
}

void DeviceNight::note_failure(const PlanItem& item) {
  ledger_->put(item.key, {.made_with = item.today,
                          .verdict = std::string(rework_verdict_name(ReworkVerdict::failed)),
                          .at = now_of(shared_.request)});
}

SearchRequest DeviceNight::search_of(const PlanItem& item) {
  SearchRequest search = shared_.request.search;
  search.target.workload = {.kernel = item.point.kernel, .problem = item.point.problem, .preset = ""};
  search.settings.policy.timing = item.key.timing;
  search.settings.all_timings = item.key.timing != Timing::overlapped;  // somebody asked for it once
  search.target.device = keys_.device();
  search.settings.quiet_wait_s = shared_.request.rework.quiet_wait_s;
  if (shared_.request.time_s > 0) search.settings.time_budget_s = std::max(1.0, shared_.seconds_left());
  return search;
}

std::string DeviceNight::shortage(const TuningPoint& point) {
  const DeviceInfo* const gpu = keys_.gpu();
  const std::int64_t total = gpu != nullptr ? gpu->key.memory_bytes : 0;
  const Kernel& kernel = find_kernel(point.kernel);
  const MemoryNeed need = memory_need(kernel, kernel.parse(point.problem), total);
  MemoryFree free{.host_bytes = free_host_memory()};
  if (gpu != nullptr && gpu->load) {
    const DeviceInfo now = find_gpu(keys_.device(), "retune");
    if (now.load) free.gpu_bytes = now.load->free_bytes;
  }
  return memory_shortage(need, free, total);
}

ReworkResult DeviceNight::rework(const PlanItem& item) {
  const auto say = [&](const std::string& why) {
    shared_.emit("waits_for_memory", {{"device", name_},
                                      {"kernel", item.point.kernel},
                                      {"problem", item.point.problem},
                                      {"message", name_ + " waits for memory: " + why}});
  };
  const auto ask = [&] { return shortage(item.point); };
  double patience_s = static_cast<double>(shared_.request.rework.quiet_wait_s);
  if (shared_.request.time_s > 0) patience_s = std::min(shared_.seconds_left(), patience_s);
  const std::string why = wait_for_memory(ask, patience_s, shared_.context.stop, say);
  if (!why.empty()) return {.verdict = ReworkVerdict::postponed, .reason = "too little memory: " + why};
  try {
    return rework_now(item);
  } catch (const BrokenEnvironment&) {
    std::string taken;
    try {
      taken = ask();
    } catch (const BrokenEnvironment&) {  // a device that is gone: what it reported first counts
    }
    if (taken.empty()) throw;
    return {.verdict = ReworkVerdict::postponed, .reason = "somebody took the memory: " + taken};
  }
}

ReworkResult DeviceNight::rework_now(const PlanItem& item) {
  const auto begin = Clock::now();
  LedgerEntry entry{.made_with = item.today, .at = now_of(shared_.request)};
  const auto begun = [&](Remedy remedy) {
    entry.verdict = LedgerEntry::begun_verdict(remedy);
    ledger_->put(item.key, entry);
  };
  const auto done = [&](const ReworkResult& result, const std::string& served) {
    if (result.verdict == ReworkVerdict::stopped || result.unfinished) return;  // begun, if its search was
    entry.verdict = rework_verdict_name(result.verdict);
    entry.at = now_of(shared_.request);
    entry.seconds = seconds_since(begin);
    entry.best_us = result.best_us;
    entry.config = served;
    ledger_->put(item.key, entry);
  };
  const Events& events = shared_.context.events;
  if (!item.over.empty()) {
    opened_.reset();  // a range opens its own
    begun(Remedy::full);
    const double time_s = shared_.request.time_s > 0 ? std::max(1.0, shared_.seconds_left()) : 0;
    ReworkResult result = rework_range(item, search_of(item), time_s, shared_.context);
    done(result, "");
    return result;
  }
  SessionSubject subject(search_of(item), item.begun.has_value(), begun, shared_.context,
                         std::exchange(opened_, std::nullopt));
  ReworkSettings settings = shared_.rework_settings();
  settings.resumed = item.begun;
  const RemedyListener chosen = [&](const Triage& triage) {
    shared_.emit("triaged", {{"device", name_},
                             {"kernel", item.point.kernel},
                             {"problem", item.point.problem},
                             {"remedy", remedy_name(triage.remedy)},
                             {"lost", triage.lost},
                             {"reason", triage.reason}});
  };
  ReworkResult result = moetune::rework(subject, settings, events, shared_.context.stop, chosen);
  done(result, subject.served());
  return result;
}

std::optional<double> DeviceNight::open_and_compare() {
  if (keys_.gpu() == nullptr) return std::nullopt;
  return gpu_speed(keys_.device(), shared_.request.search.target.cache, {.stop = shared_.context.stop}, &opened_);
}

std::optional<double> DeviceNight::canary_rate() {
  if (keys_.gpu() == nullptr) return std::nullopt;
  return gpu_speed(keys_.device(), shared_.request.search.target.cache, {.stop = shared_.context.stop});
}

}  // namespace moetune
