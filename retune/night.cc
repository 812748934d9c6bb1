#include "retune/night.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#include "base/error.h"
#include "jobs/session/stores.h"
#include "retune/device_night.h"
#include "retune/stale_ranges.h"

namespace moetune {
namespace {

constexpr std::size_t kBrokenInARow = 3;  // then the device is at fault, and not a workload
constexpr std::chrono::milliseconds kLookAgain{200};

class Night {
 public:
  Night(const NightRequest& request, const JobContext& context, const NightListener& listener)
      : request_(request),
        listener_(listener),
        shared_{.request = request,
                .context = context,
                .emit = [this](const char* name, const Document& more) { emit(name, more); }},
        device_(shared_) {}

  NightResult run() {
    if (!request_.dry_run) {
      open_or_create_cache(request_.search.target.cache);  // its folder too, where the locks go
      if (!request_.is_locked) device_.take_lock();
    }
    device_.read_ledger();
    result_.devices = {device_.name()};
    result_.plan = plan_night(request_, device_.keys(), device_.known());
    if (!request_.member) emit("planned", plan_document(result_.plan));
    if (!request_.dry_run && may_begin()) work_all();
    return std::move(result_);
  }

 private:
  void emit(const char* name, const Document& more) {
    if (!listener_) return;
    Document event = {{"event", name}, {"at", now_of(request_)}};
    event.update(more);
    listener_(event);
  }

  bool is_over() {
    result_.interrupted = result_.interrupted || shared_.context.stop.stop_requested();
    result_.out_of_time = result_.out_of_time || shared_.out_of_time();
    return result_.interrupted || result_.out_of_time;
  }

  // A member is compared with its siblings first, and stays open for its first workload.
  bool may_begin() {
    if (!request_.member) return true;
    try {
      const std::optional<double> rate = device_.open_and_compare();
      emit("compared", {{"rate", rate ? Document(*rate) : Document(nullptr)}});
    } catch (const Stopped&) {  // which is no device's fault
    }
    return request_.member->may_begin();
  }

  void work_all() {
    std::vector<PlanItem> left = result_.plan.items;
    std::size_t broken_in_a_row = 0;
    while (!left.empty() && !is_over() && result_.broken.empty()) {
      const auto next = std::ranges::find_if(left, [this](const PlanItem& one) { return device_.hold(one); });
      if (next == left.end()) {  // other nights may yet fail under what they hold
        device_.close_idle();
        std::this_thread::sleep_for(kLookAgain);
        continue;
      }
      const PlanItem item = std::move(*next);
      left.erase(next);
      if (device_.was_examined(item)) {
        if (!request_.member) report(examined_elsewhere(item));
      } else {
        const std::string broken = rework_one(item);
        broken_in_a_row = broken.empty() ? 0 : broken_in_a_row + 1;
        if (!broken.empty() && has_failed(broken_in_a_row)) result_.broken = broken;
      }
      device_.release(item);
    }
    result_.interrupted = result_.interrupted || shared_.context.stop.stop_requested();
    emit("night_ended", result_.ending());
  }

  // Whether the device is at fault and not its workloads. One with siblings is looked at as soon as it breaks down.
  bool has_failed(std::size_t broken_in_a_row) {
    if (broken_in_a_row >= kBrokenInARow) return true;
    if (!request_.member) return false;
    try {
      device_.canary_rate();
      return false;
    } catch (const BrokenEnvironment&) {
      return true;
    } catch (const Stopped&) {
      return false;
    }
  }

  // Why the device broke down under it; "" if it did not.
  std::string rework_one(const PlanItem& item) {
    Document began = item_document(item);
    began["device"] = device_.name();
    emit("began", began);
    const auto begin = NightShared::Clock::now();
    ReworkResult result;
    std::string broken;
    try {
      result = device_.rework(item);
    } catch (const BrokenEnvironment& error) {
      broken = error.what();
      if (request_.member) {
        give_on(item, broken);
        return broken;
      }
      result = {.verdict = ReworkVerdict::failed, .reason = broken};
    } catch (const std::exception& error) {  // bad input of this workload; whatever else is its failure alone
      result = {.verdict = ReworkVerdict::failed, .reason = error.what()};
      device_.note_failure(item);
    }
    const double seconds = std::chrono::duration<double>(NightShared::Clock::now() - begin).count();
    report(reworked_document(item, result, device_.name(), seconds));
    return broken;
  }

  void give_on(const PlanItem& item, const std::string& broken) {
    emit("given_on", {{"device", device_.name()},
                      {"kernel", item.point.kernel},
                      {"problem", item.point.problem},
                      {"over", text_or_null(item.over)},
                      {"why", broken},
                      {"message", device_.name() + " broke down under " + item.point.kernel + " " + item.point.problem +
                                      "; another takes it: " + broken}});
  }

  void report(Document reworked) {
    emit("ended", reworked);
    result_.reworked.push_back(std::move(reworked));
  }

  const NightRequest& request_;
  const NightListener& listener_;
  NightShared shared_;
  DeviceNight device_;
  NightResult result_;
};

}  // namespace

std::size_t NightResult::count(ReworkVerdict verdict) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      reworked, [&](const Document& one) { return one.at("verdict") == rework_verdict_name(verdict); }));
}

Document NightResult::ending() const {
  return {{"interrupted", interrupted},
          {"out_of_time", out_of_time},
          {"improved", count(ReworkVerdict::improved)},
          {"tuned", count(ReworkVerdict::tuned)},
          {"failures", failures()},
          {"broken", broken}};
}

std::size_t NightResult::failures() const { return count(ReworkVerdict::failed) + plan.left_out.size(); }

std::int64_t now_of(const NightRequest& request) {
  return request.now ? request.now() : static_cast<std::int64_t>(std::time(nullptr));
}

NightPlan plan_night(const NightRequest& request, KeyFinder& keys, const Ledger& known) {
  const std::unique_ptr<Cache> cache = open_existing_cache(request.search.target.cache);
  const TuningWork work = work_of_shard(work_of(request.list), request.plan.shard, request.plan.budget);
  NightPlan plan = make_plan(work.points, keys, cache.get(), known, request.plan, now_of(request));
  plan_ranges(plan, work.ranges, keys, cache.get(), known, request.plan, now_of(request));
  return plan;
}

NightResult run_night(const NightRequest& request, const JobContext& context, const NightListener& listener) {
  if (request.search.target.cache.none) throw BadField("no_cache", "a night needs a cache: it stores what it finds");
  return Night(request, context, listener).run();
}

}  // namespace moetune
