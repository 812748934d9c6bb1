#include "retune/host_night.h"

#include <poll.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "base/json_fields.h"
#include "jobs/session/stores.h"
#include "retune/device_night.h"
#include "retune/member_process.h"

namespace moetune {
namespace {

constexpr int kLook_ms = 100;

struct Member {
  std::string name, device;
  std::size_t twin = 0;
  std::unique_ptr<MemberProcess> process = {};  // null in a dry run, and once it has ended
  bool is_compared = false, is_done = false;    // its canary has run; its night has ended in good order
  std::optional<double> rate = {};
  std::string broken = {};  // why it does not work (any more)
};

// Devices of one kind.
struct Team {
  std::unique_ptr<KeyFinder> keys;
  std::vector<std::size_t> members = {};
  NightPlan plan = {};
  std::map<std::string, std::size_t> ended = {};     // by workload, the place in NightResult::reworked
  std::map<std::string, std::string> given_on = {};  // by workload, why a device broke down under it
};

// As documents name a workload.
std::string name_of(const Document& event) {
  return text_field(event, "kernel") + "\n" + text_field(event, "problem") + "\n" + text_field(event, "over");
}

std::string name_of(const PlanItem& item) { return item.point.kernel + "\n" + item.point.problem + "\n" + item.over; }

class HostNight {
 public:
  HostNight(const NightRequest& request, const JobContext& context, const NightListener& listener)
      : request_(request), context_(context), listener_(listener) {}

  NightResult run(const std::vector<NightDevice>& devices, const MemberArguments& arguments) {
    make_teams(devices);
    if (!request_.dry_run) start(arguments);
    const Ledger known = ledgers_beside(request_.search.target.cache.file());
    for (Team& team : teams_) team.plan = plan_night(request_, *team.keys, known);  // canaries run meanwhile
    if (!request_.dry_run) {
      follow([](const Member& one) { return one.is_compared; });
      leave_out_unfit();
    }
    for (const Team& team : teams_) {
      const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
      append(result_.plan.items, team.plan.items);
      append(result_.plan.fresh, team.plan.fresh);
      append(result_.plan.left_out, team.plan.left_out);
    }
    emit("planned", plan_document(result_.plan));
    if (!request_.dry_run) work_all();
    return std::move(result_);
  }

 private:
  void emit(const char* name, const Document& more) {
    Document event = {{"event", name}, {"at", now_of(request_)}};
    event.update(more);
    if (listener_) listener_(event);
  }

  void leave_out(const std::string& device, const std::string& why) {
    emit("device_left_out", {{"device", device}, {"why", why}, {"message", device + " is left out: " + why}});
    result_.left_out_devices.push_back({device, why});
  }

  void make_teams(const std::vector<NightDevice>& devices) {
    std::map<std::string, std::size_t> by_kind, twins;
    for (const NightDevice& one : devices) {
      const DeviceInfo* const gpu = one.gpu ? &*one.gpu : nullptr;
      const std::size_t twin = twins[one.name]++;
      const auto [found, is_new] = by_kind.emplace(gpu != nullptr ? gpu->key.text() : one.name, teams_.size());
      const bool no_compile = request_.search.no_compile;
      if (is_new)
        teams_.push_back(
            {.keys = std::make_unique<KeyFinder>(gpu != nullptr ? KeyFinder(*gpu, no_compile, "retune")
                                                                : KeyFinder(one.name, no_compile, "retune"))});
      teams_[found->second].members.push_back(members_.size());
      members_.push_back({.name = night_device_name(one.name, gpu, twin), .device = one.name, .twin = twin});
      result_.devices.push_back(members_.back().name);
    }
  }

  void start(const MemberArguments& arguments) {
    open_or_create_cache(request_.search.target.cache);  // by one process
    for (Member& one : members_) one.process = std::make_unique<MemberProcess>(arguments(one.device), one.twin);
  }

  // Takes in what the members report, until each has ended or is `far_enough`.
  template <typename FarEnough>
  void follow(const FarEnough& far_enough) {
    for (;;) {
      std::vector<pollfd> waits;
      std::vector<std::size_t> whose;
      bool is_there = true;
      for (std::size_t i = 0; i < members_.size(); ++i) {
        Member& one = members_[i];
        if (!one.process) continue;
        if (context_.stop.stop_requested()) one.process->stop();
        waits.push_back({.fd = one.process->events(), .events = POLLIN, .revents = 0});
        whose.push_back(i);
        is_there = is_there && far_enough(one);
      }
      if (is_there) return;
      if (poll(waits.data(), waits.size(), kLook_ms) <= 0) continue;
      for (std::size_t i = 0; i < waits.size(); ++i)
        if (waits[i].revents != 0) take_in(members_[whose[i]]);
    }
  }

  void take_in(Member& member) {
    for (const Document& event : member.process->read()) take_event(member, event);
    if (member.process->events() >= 0) return;
    if (!member.is_done && member.broken.empty() && !context_.stop.stop_requested())
      member.broken = member.process->death().empty() ? "its process ended too early" : member.process->death();
    member.process.reset();
    if (is_working_ && !member.broken.empty()) leave_out(member.name, member.broken);
  }

  void take_event(Member& member, const Document& event) {
    const std::string name = event.value("event", "");
    if (name == "compared") {
      member.is_compared = true;
      if (event.at("rate").is_number()) member.rate = event["rate"].get<double>();
    } else if (name == "broken") {
      member.broken = event.value("why", "it does not work");
    } else if (name == "night_ended") {
      member.is_done = true;
      member.broken = event.value("broken", "");
      result_.out_of_time = result_.out_of_time || event.value("out_of_time", false);
      result_.interrupted = result_.interrupted || event.value("interrupted", false);
    } else {
      if (name == "ended") note_ended(team_of(member), event);
      if (name == "given_on") team_of(member).given_on[name_of(event)] = event.value("why", "");
      if (listener_) listener_(event);
    }
  }

  Team& team_of(const Member& member) {
    const std::size_t position = static_cast<std::size_t>(&member - members_.data());
    return *std::ranges::find_if(
        teams_, [&](const Team& team) { return std::ranges::find(team.members, position) != team.members.end(); });
  }

  // Records how a workload ended. A later event replaces an earlier one: another device may do what one postponed.
  void note_ended(Team& team, Document event) {
    const auto [found, is_new] = team.ended.emplace(name_of(event), result_.reworked.size());
    event.erase("event");
    event.erase("at");
    if (is_new) {
      result_.reworked.push_back(std::move(event));
    } else {
      result_.reworked[found->second] = std::move(event);
    }
  }

  void leave_out_unfit() {
    if (context_.stop.stop_requested()) return;  // which is no device's fault
    std::string last;
    for (Team& team : teams_) {
      std::vector<std::optional<double>> rates;
      for (const std::size_t one : team.members) rates.push_back(members_[one].rate);
      const std::vector<std::size_t> slow = slow_siblings(rates);
      const double best = std::ranges::max_element(rates)->value_or(0);
      std::vector<std::size_t> fit;
      for (std::size_t i = 0; i < team.members.size(); ++i) {
        Member& member = members_[team.members[i]];
        if (std::ranges::find(slow, i) != slow.end())
          member.broken =
              format("its canary is %.1f%% slower than that of its siblings", 100 * (1 - *member.rate / best));
        if (member.broken.empty()) {
          fit.push_back(team.members[i]);
          continue;
        }
        member.process.reset();  // its worker would hold memory of the GPU
        leave_out(member.name, last = member.broken);
      }
      team.members = std::move(fit);
    }
    // Drop teams without a working GPU; GPUs of another kind may still work.
    std::erase_if(teams_, [](const Team& team) { return team.members.empty(); });
    if (teams_.empty()) throw BrokenEnvironment("no GPU works: " + last);
  }

  void work_all() {
    is_working_ = true;
    for (const Member& one : members_)
      if (one.process) one.process->let_begin();
    follow([](const Member&) { return false; });
    result_.interrupted = result_.interrupted || context_.stop.stop_requested();
    if (!result_.interrupted && !result_.out_of_time)
      for (Team& team : teams_) account_for_rest(team);
    emit("night_ended", result_.ending());
  }

  // Reports the workloads that no device of the team ended: another night examined them, or no device was left.
  void account_for_rest(Team& team) {
    const bool are_all_broken =
        std::ranges::all_of(team.members, [this](std::size_t one) { return !members_[one].broken.empty(); });
    if (are_all_broken) result_.broken = members_[team.members.back()].broken;
    for (const PlanItem& item : team.plan.items) {
      const std::string name = name_of(item);
      if (team.ended.contains(name)) continue;
      const auto given_on = team.given_on.find(name);
      const bool is_lost = are_all_broken || given_on != team.given_on.end();
      const std::string why = given_on != team.given_on.end() ? given_on->second : "no device was left for it";
      const Document document = is_lost
                                    ? reworked_document(item, {.verdict = ReworkVerdict::failed, .reason = why}, "", 0)
                                    : examined_elsewhere(item);
      emit("ended", document);
      result_.reworked.push_back(document);
    }
  }

  const NightRequest& request_;
  const JobContext& context_;
  const NightListener& listener_;
  std::vector<Team> teams_;
  NightResult result_;
  bool is_working_ = false;
  std::vector<Member> members_;
};

}  // namespace

NightResult run_host_night(const NightRequest& request, const std::vector<NightDevice>& devices,
                           const JobContext& context, const NightListener& listener, const MemberArguments& arguments) {
  if (request.search.target.cache.none) throw BadField("no_cache", "a night needs a cache: it stores what it finds");
  return HostNight(request, context, listener).run(devices, arguments);
}

}  // namespace moetune
