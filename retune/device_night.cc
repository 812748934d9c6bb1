#include "retune/device_night.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "jobs/device_choice.h"
#include "jobs/gpu_speed.h"
#include "kernels/registry.h"
#include "retune/stale_ranges.h"

namespace moetune {
namespace {

using Clock = NightShared::Clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What others have of it now is theirs; nullopt for recordings.
std::optional<std::int64_t> memory_of(const DeviceInfo* gpu) {
  if (gpu == nullptr) return std::nullopt;
  return gpu->load ? gpu->load->free_bytes : gpu->key.memory_bytes;
}

}  // namespace

// "moetune.db-retune-GPU-1234": a ledger and a lock for each GPU, because a process each may use them.
std::filesystem::path night_files(const std::filesystem::path& cache, const DeviceInfo* gpu,
                                  std::size_t twin) {
  std::string name = gpu == nullptr ? "recordings" : gpu->uuid.empty() ? gpu->id : gpu->uuid;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '/' || c == ' '; }, '-');
  return cache.string() + "-retune-" + name + (twin > 0 ? "-" + std::to_string(twin + 1) : "");
}

std::int64_t NightShared::now() const {
  return request.now ? request.now() : static_cast<std::int64_t>(std::time(nullptr));
}

double NightShared::seconds_left() const { return request.time_s - seconds_since(begin); }

ReworkSettings NightShared::rework_settings() const {
  ReworkSettings settings = request.rework;
  if (request.time_s > 0)
    settings.deadline =
        begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(request.time_s));
  return settings;
}

DeviceNight::DeviceNight(NightShared& shared, NightDevice device, std::size_t position, std::size_t twin)
    : shared_(shared),
      name_(device.name),
      position_(position),
      keys_(device.gpu ? KeyFinder(*std::move(device.gpu), shared.request.search.no_compile, "retune")
                       : KeyFinder(std::move(device.name), shared.request.search.no_compile, "retune")),
      room_(memory_of(keys_.gpu())) {
  const DeviceInfo* const gpu = keys_.gpu();
  if (gpu != nullptr) name_ = gpu->id;
  if (twin > 0) name_ += " (" + std::to_string(twin + 1) + ")";
  stem_ = night_files(shared.request.search.target.cache.file(), gpu, twin);
}

std::string DeviceNight::kind() {
  const DeviceInfo* const gpu = keys_.gpu();
  return gpu != nullptr ? gpu->key.text() : keys_.device();
}

void DeviceNight::take_lock() {
  lock_.emplace(stem_, keys_.gpu() == nullptr ? "" : keys_.gpu()->uuid);
  if (!lock_->taken_over().empty())
    shared_.emit("taken_over", {{"device", name_}, {"message", lock_->taken_over()}});
}

void DeviceNight::read_ledger() {
  ledger_.emplace(stem_.string() + ".json");
  if (!ledger_->damage().empty())
    shared_.emit("ledger_damaged", {{"device", name_}, {"message", ledger_->damage()}});
}

void DeviceNight::write_down(const WorkloadKey& key, const LedgerEntry& entry) {
  const std::lock_guard lock(writing_);
  ledger_->put(key, entry);
}

Events DeviceNight::events() const {
  return {.job = static_cast<JobId>(position_), .listener = shared_.context.events.listener};
}

SearchRequest DeviceNight::search_of(const PlanItem& item) {
  SearchRequest search = shared_.request.search;
  search.target.workload = {.kernel = item.point.kernel, .problem = item.point.problem, .preset = ""};
  search.settings.policy.timing = item.key.timing;
  search.settings.all_timings = item.key.timing != Timing::overlapped;  // somebody asked for it once
  search.target.device = keys_.device();
  search.threads = shared_.threads;
  search.settings.quiet_wait_s = shared_.request.rework.quiet_wait_s;
  if (shared_.request.time_s > 0) search.settings.time_budget_s = std::max(1.0, shared_.seconds_left());
  return search;
}

MemoryNeed DeviceNight::need_of(const TuningPoint& point) {
  const DeviceInfo* const gpu = keys_.gpu();
  const Kernel& kernel = find_kernel(point.kernel);
  return memory_need(kernel, parse_problem(kernel.name(), kernel.schema(), nullptr, point.problem),
                     gpu != nullptr ? gpu->key.memory_bytes : 0);
}

std::string DeviceNight::shortage(const TuningPoint& point) {
  const DeviceInfo* const gpu = keys_.gpu();
  const std::int64_t total = gpu != nullptr ? gpu->key.memory_bytes : 0;
  const MemoryNeed need = need_of(point);
  MemoryFree free{.host_bytes = free_host_memory()};
  if (gpu != nullptr && gpu->load) {
    const DeviceInfo now = find_gpu(keys_.device(), "retune");
    if (now.load) free.gpu_bytes = now.load->free_bytes;
  }
  return memory_shortage(need, free, total);
}

ReworkResult DeviceNight::rework(const PlanItem& item) {
  // A range's search takes no turns, so it has the device alone.
  const std::int64_t bytes = item.over.empty() ? need_of(item.point).gpu_bytes : MemoryRoom::kAll;
  return rework_or_postpone(
      room_, bytes, [&] { return rework_with_room(item); }, [&] { return shortage(item.point); });
}

ReworkResult DeviceNight::rework_with_room(const PlanItem& item) {
  const auto say = [&](const std::string& why) {
    shared_.emit("waits_for_memory", {{"device", name_},
                                      {"kernel", item.point.kernel},
                                      {"problem", item.point.problem},
                                      {"message", name_ + " waits for memory: " + why}});
  };
  const auto ask = [&] { return shortage(item.point); };
  const double patience_s =
      shared_.request.time_s > 0
          ? std::min(shared_.seconds_left(), static_cast<double>(shared_.request.rework.quiet_wait_s))
          : static_cast<double>(shared_.request.rework.quiet_wait_s);
  const std::string why = wait_for_memory(ask, patience_s, shared_.context.stop, say);
  if (!why.empty()) return {.verdict = ReworkVerdict::postponed, .reason = "too little memory: " + why};
  return rework_now(item);
}

ReworkResult DeviceNight::rework_now(const PlanItem& item) {
  const auto begin = Clock::now();
  LedgerEntry entry{.made_with = item.today, .at = shared_.now()};
  const auto begun = [&](Remedy remedy) {
    entry.verdict = LedgerEntry::begun_verdict(remedy);
    write_down(item.key, entry);
  };
  const auto done = [&](const ReworkResult& result, const std::string& served) {
    entry.verdict = rework_verdict_name(result.verdict);
    entry.at = shared_.now();
    entry.seconds = seconds_since(begin);
    entry.best_us = result.best_us;
    entry.config = served;
    write_down(item.key, entry);
  };
  const JobContext context{.events = events(), .stop = shared_.context.stop};
  if (!item.over.empty()) {
    take_opened();  // a range opens its own
    begun(Remedy::full);
    const double time_s = shared_.request.time_s > 0 ? std::max(1.0, shared_.seconds_left()) : 0;
    ReworkResult result = rework_range(item, search_of(item), time_s, context);
    if (result.verdict != ReworkVerdict::stopped && !result.unfinished) done(result, "");
    return result;
  }
  SessionSubject subject(search_of(item), item.begun.has_value(), begun, context, turn_, take_opened());
  ReworkSettings settings = shared_.rework_settings();
  settings.resumed = item.begun;
  settings.duels_only = item.causes == std::vector{StaleCause::rival} && !item.begun;
  const RemedyListener chosen = [&](const Triage& triage) {
    shared_.emit("triaged", {{"device", name_},
                             {"kernel", item.point.kernel},
                             {"problem", item.point.problem},
                             {"remedy", remedy_name(triage.remedy)},
                             {"lost", triage.lost},
                             {"reason", triage.reason}});
  };
  ReworkResult result = moetune::rework(subject, settings, events(), shared_.context.stop, chosen);
  if (result.verdict == ReworkVerdict::stopped || result.unfinished)
    return result;  // begun, if its search was
  done(result, subject.served());
  return result;
}

Confirmed DeviceNight::confirm(const PlanItem& item, const ReworkResult& found) {
  return room_.work_beside(need_of(item.point).gpu_bytes, [&] { return confirm_with_room(item, found); });
}

Confirmed DeviceNight::confirm_with_room(const PlanItem& item, const ReworkResult& found) {
  Confirmed confirmed{.point = item.point, .device = name_};
  std::optional<DeviceChoice> opened = take_opened();
  if (!opened) opened = std::exchange(spare_, std::nullopt);
  SessionSubject subject(search_of(item), false, {}, {.events = events(), .stop = shared_.context.stop},
                         turn_, std::move(opened));
  const SiblingCheck check = check_on_sibling(subject, found.served, found.replaced,
                                              shared_.rework_settings(), events(), shared_.context.stop);
  confirmed.held = check.held;
  confirmed.reason = check.reason;
  confirmed.contest = check.contest;
  if (!check.lost) return confirmed;
  const std::lock_guard one_at_a_time(shared_.withdrawing);
  confirmed.withdrawn = subject.withdraw(found.served, found.replaced, check);
  // What is served again was examined tonight too, or every night would find the other one and take it back.
  if (confirmed.withdrawn)
    write_down(item.key, {item.today, std::string(rework_verdict_name(ReworkVerdict::kept)), shared_.now(), 0,
                          0, subject.served()});
  return confirmed;
}

void DeviceNight::prepare_confirm(const TuningPoint& some) {
  if (keys_.gpu() == nullptr || spare_ || has_no_spare_) return;
  try {
    spare_ =
        choose_gpu(keys_.device(), {.kernel = some.kernel, .problem = some.problem, .preset = ""}, "retune");
  } catch (const std::exception&) {  // a process before each check would only delay it
    has_no_spare_ = true;
  }
}

// A rework() that does not need it, or a confirm() before any, has its memory back by taking it.
std::optional<DeviceChoice> DeviceNight::take_opened() {
  const std::lock_guard lock(opening_);
  return std::exchange(opened_, std::nullopt);
}

std::optional<double> DeviceNight::open_and_compare() {
  if (keys_.gpu() == nullptr) return std::nullopt;
  const double from = shared_.times.now();
  std::optional<DeviceChoice> opened;
  const auto rate =
      gpu_speed(keys_.device(), shared_.request.search.target.cache, {.stop = shared_.context.stop}, &opened);
  shared_.times.canary(name_, from);
  const std::lock_guard lock(opening_);
  opened_ = std::move(opened);
  return rate;
}

std::optional<double> DeviceNight::canary_rate() {
  if (keys_.gpu() == nullptr) return std::nullopt;
  const MemoryRoom::Hold alone = room_.take(MemoryRoom::kAll);
  return gpu_speed(keys_.device(), shared_.request.search.target.cache, {.stop = shared_.context.stop});
}

}  // namespace moetune
