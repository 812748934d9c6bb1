#include "retune/rework.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/random_text.h"
#include "tuner/finals.h"
#include "tuner/plausibility.h"

namespace moetune {
namespace {

struct Probe {
  ProbeReading reading;
  std::vector<Candidate> others;  // as in `reading`
  std::size_t earlier = 0;        // of `others`, the first ones: winners of before
  bool sound = false;
};

double then_of(const std::vector<OldTrial>& trials, const std::string& config) {
  const auto found = std::ranges::find(trials, config, &OldTrial::config);
  return found == trials.end() ? 0 : found->time_us;
}

Probe run_probe(ReworkSubject& subject, const Candidate& incumbent, QuietWatch& watch) {
  const std::vector<OldTrial> trials = subject.old_trials();
  const std::string winner = incumbent.config.text();
  const auto default_id = subject.default_id();
  const std::string default_config = default_id ? subject.space().config(*default_id).text() : "";
  Probe probe;
  probe.reading.winner.then_us = then_of(trials, winner);
  std::vector<Candidate> candidates = {incumbent};
  const std::vector<std::string> earlier = subject.earlier();
  for (const OldTrial& one : choose_panel(trials, winner, default_config, earlier)) {
    const std::optional<ConfigId> id = subject.space().find_text(one.config);
    std::optional<Candidate> candidate = id ? subject.prepare(*id) : std::nullopt;
    if (!candidate) continue;
    probe.earlier += std::ranges::find(earlier, one.config) != earlier.end();
    candidates.push_back(*std::move(candidate));
    probe.reading.others.push_back({one.time_us, {}});
  }
  subject.open_device();
  std::vector<TrialResult> results;
  probe.sound = watch.measure_quietly([&] {
    results = hold_plausible_duel(subject.device(), candidates, {kProbeRounds, subject.timing()}, subject.least_us());
  });
  probe.reading.winner.now = results.front();
  for (std::size_t i = 1; i < results.size(); ++i) probe.reading.others[i - 1].now = results[i];
  probe.others.assign(candidates.begin() + 1, candidates.end());
  return probe;
}

QuietWatch watch_of(Device& device, const ReworkSettings& settings, const Events& events, const std::stop_token& stop) {
  QuietWatch watch(device, events, settings.quiet_wait_s, stop);
  if (settings.deadline) watch.end_patience_at(*settings.deadline);
  return watch;
}

class Rework {
 public:
  Rework(ReworkSubject& subject, const ReworkSettings& settings, const Events& events, std::stop_token stop)
      : subject_(subject), settings_(settings), events_(events), stop_(std::move(stop)) {}

  ReworkResult run(const RemedyListener& chosen) {
    const std::optional<Candidate> incumbent = subject_.incumbent();
    if (!incumbent) return tune_missing();
    if (std::optional<ReworkResult> end = replace_wrong(*incumbent)) return *std::move(end);
    if (settings_.resumed) {
      result_.triage = Triage{*settings_.resumed, 0, "an earlier night was stopped in this search"};
      if (chosen) chosen(*result_.triage);
      return replace(*incumbent);
    }
    QuietWatch watch = watch_of(subject_.device(), settings_, events_, stop_);
    const Probe probe = run_probe(subject_, *incumbent, watch);
    if (!probe.sound) return ended(ReworkVerdict::postponed, "somebody else used the GPU during the probe");
    if (std::optional<ReworkResult> back = bring_back(*incumbent, probe, watch)) return *std::move(back);
    result_.triage = triage(probe.reading);
    result_.best_us = probe.reading.winner.now.measurement.median_us;
    if (chosen) chosen(*result_.triage);
    if (result_.triage->remedy == Remedy::keep) return ended(ReworkVerdict::kept, result_.triage->reason);
    return replace(*incumbent);
  }

 private:
  TrialResult measure(const Candidate& candidate) {
    TrialResult result = subject_.device().run(candidate, {.timing = subject_.timing()});
    reject_impossible(result, subject_.least_us());
    return result;
  }

  Contest hold_contest_of(const Candidate& present, const Candidate& other, QuietWatch& watch) {
    return hold_contest(subject_.device(), watch, present, other, subject_.timing(), subject_.least_us(),
                        settings_.contest_rounds);
  }

  ReworkResult ended(ReworkVerdict verdict, std::string reason) {
    result_.verdict = verdict;
    result_.reason = std::move(reason);
    if (result_.unfinished) result_.reason += "; the time was up, and the next night goes on with the search";
    return std::move(result_);
  }

  // An incumbent that today's judge refuses meets nobody: whatever is right takes its place, however fast it is.
  // nullopt if it is right.
  std::optional<ReworkResult> replace_wrong(const Candidate& incumbent) {
    if (subject_.is_proven()) return std::nullopt;
    subject_.open_device();
    const TrialResult check = subject_.device().verify(incumbent, random_seed(), MeasurePolicy{}.time_limit_s);
    if (check.outcome != Outcome::wrong_result) return std::nullopt;  // one that no longer runs is found by the probe
    result_.triage = Triage{Remedy::full, 1, "the stored winner is wrong: " + check.message};
    const TuneResult found = subject_.search(Remedy::full);
    if (std::optional<ReworkResult> end = unusable(found)) return end;
    subject_.store(found);
    result_.best_us = found.best->result.measurement.median_us;
    return ended(ReworkVerdict::improved, result_.triage->reason);
  }

  // A winner of before that is faster again, as after a driver went back, needs no search. nullopt if there is none.
  std::optional<ReworkResult> bring_back(const Candidate& incumbent, const Probe& probe, QuietWatch& watch) {
    const TrialResult& present = probe.reading.winner.now;
    std::size_t best = probe.earlier;
    for (std::size_t i = 0; i < probe.earlier; ++i) {
      const TrialResult& now = probe.reading.others[i].now;
      const bool is_better =
          best == probe.earlier || now.measurement.median_us < probe.reading.others[best].now.measurement.median_us;
      if (now.outcome == Outcome::ok && is_better) best = i;
    }
    if (best == probe.earlier) return std::nullopt;
    const Candidate& earlier = probe.others[best];
    const double ratio = probe.reading.others[best].now.measurement.median_us / present.measurement.median_us;
    if (present.outcome == Outcome::ok && ratio >= 1 - kTie) return std::nullopt;
    const Contest contest = hold_contest_of(incumbent, earlier, watch);
    if (!contest.won) return std::nullopt;  // triage has its own word
    const std::optional<ConfigId> id = subject_.space().find_text(earlier.config.text());
    TuneResult found;
    found.best = Trial{.id = id.value(), .config = earlier.config, .result = measure(earlier)};
    if (found.best->result.outcome != Outcome::ok) return std::nullopt;
    found.winner = earlier;
    subject_.store(found);
    result_.contest = contest;
    result_.best_us = found.best->result.measurement.median_us;
    return ended(ReworkVerdict::improved, "a winner of before is faster again: " + contest.reason);
  }

  // nullopt if the search gave a winner to go on with.
  std::optional<ReworkResult> unusable(const TuneResult& found) {
    result_.trials = found.counts.total();
    if (found.interrupted) return ended(ReworkVerdict::stopped, "the search was stopped; its trials are kept");
    result_.unfinished = found.out_of_time;
    if (!found.best && found.out_of_time) return ended(ReworkVerdict::stopped, "nothing valid was found yet");
    if (!found.best) return ended(ReworkVerdict::failed, "nothing valid was found");
    if (found.best->result.contended)
      return ended(ReworkVerdict::postponed, "somebody else used the GPU at the end of the search");
    return std::nullopt;
  }

  ReworkResult tune_missing() {
    const TuneResult found = subject_.search(Remedy::full);
    if (std::optional<ReworkResult> end = unusable(found)) return *std::move(end);
    subject_.store(found);
    result_.best_us = found.best->result.measurement.median_us;
    return ended(ReworkVerdict::tuned, format("%zu trials", result_.trials));
  }

  ReworkResult replace(const Candidate& incumbent) {
    const TuneResult found = subject_.search(result_.triage->remedy);
    if (std::optional<ReworkResult> end = unusable(found)) return *std::move(end);
    if (subject_.is_incumbent(found)) {
      result_.best_us = found.best->result.measurement.median_us;
      subject_.store(found);  // the same kernel with today's time
      return ended(ReworkVerdict::kept, "the search found the present winner again");
    }
    const double before_us = result_.best_us;
    QuietWatch watch = watch_of(subject_.device(), settings_, events_, stop_);
    result_.contest = hold_contest_of(incumbent, found.winner, watch);
    const Contest& contest = *result_.contest;
    if (contest.contended) return ended(ReworkVerdict::postponed, contest.reason);
    if (!contest.won) return ended(ReworkVerdict::kept, "the new winner did not win: " + contest.reason);
    subject_.store(found);
    result_.best_us = before_us > 0 ? before_us * contest.ratio : found.best->result.measurement.median_us;
    return ended(ReworkVerdict::improved, contest.reason);
  }

  ReworkSubject& subject_;
  const ReworkSettings& settings_;
  const Events& events_;
  std::stop_token stop_;
  ReworkResult result_;
};

}  // namespace

std::string_view rework_verdict_name(ReworkVerdict verdict) {
  static constexpr std::string_view kNames[] = {"tuned", "improved", "kept", "postponed", "failed", "stopped"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::vector<OldTrial> choose_panel(const std::vector<OldTrial>& trials, const std::string& winner,
                                   const std::string& default_config, const std::vector<std::string>& earlier) {
  std::vector<OldTrial> sorted;
  for (const OldTrial& trial : trials)
    if (trial.config != winner && trial.time_us > 0) sorted.push_back(trial);
  std::ranges::sort(sorted, [](const OldTrial& a, const OldTrial& b) {
    return std::pair(a.time_us, a.config) < std::pair(b.time_us, b.config);
  });
  std::vector<std::size_t> positions = {0, 1, 2};
  for (const double share : {0.06, 0.12, 0.2, 0.3, 0.45})
    positions.push_back(3 + static_cast<std::size_t>(share * static_cast<double>(sorted.size())));
  std::vector<OldTrial> panel;
  std::set<std::string> taken;
  const auto take = [&](const OldTrial& trial) {
    if (taken.insert(trial.config).second) panel.push_back(trial);
  };
  for (const std::string& config : earlier) {  // one that the last search did not measure has no old time
    if (config != winner && panel.size() < kProbedEarlier) take({config, then_of(trials, config)});
  }
  const std::size_t beside = panel.size();
  for (const OldTrial& trial : sorted)
    if (trial.config == default_config) take(trial);
  for (const std::size_t position : positions)
    if (position < sorted.size() && panel.size() + 1 < kProbeSize + beside) take(sorted[position]);
  return panel;
}

ReworkResult rework(ReworkSubject& subject, const ReworkSettings& settings, const Events& events, std::stop_token stop,
                    const RemedyListener& chosen) try {
  return Rework(subject, settings, events, stop).run(chosen);
} catch (const Stopped&) {
  return {.verdict = ReworkVerdict::stopped, .reason = "stopped"};
}

}  // namespace moetune
