#include "tuner/finals.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/format.h"
#include "base/lists.h"
#include "base/random_text.h"
#include "tuner/plausibility.h"

namespace moetune {

std::vector<std::size_t> rank_duel(const std::vector<Trial>& trials, std::optional<ConfigId> default_id) {
  std::vector<std::size_t> order(trials.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto median = [&](std::size_t i) { return trials[i].result.measurement.median_us; };
  const auto stands = [&](std::size_t i) { return trials[i].result.outcome == Outcome::ok; };
  const auto by_rank = [&](std::size_t a, std::size_t b) {
    return std::pair(trials[a].id != default_id, trials[a].id) < std::pair(trials[b].id != default_id, trials[b].id);
  };
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    if (stands(a) != stands(b)) return stands(a);
    if (median(a) != median(b)) return median(a) < median(b);
    return by_rank(a, b);
  });
  // Ties are taken against the fastest of the group, not from one to the next: a chain of near equals must
  // not lift a slow one to the front.
  for (auto group = order.begin(); group != order.end() && stands(*group);) {
    const double limit = median(*group) * (1 + kTie);
    const auto end = std::find_if(group, order.end(), [&](std::size_t i) { return !stands(i) || median(i) > limit; });
    std::sort(group, end, by_rank);
    group = end;
  }
  return order;
}

std::vector<std::size_t> rank_recorded(const std::vector<Trial>& trials) {
  std::vector<std::size_t> order(trials.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rank = [&](std::size_t i) {
    return std::tuple(trials[i].result.outcome != Outcome::ok, trials[i].result.measurement.median_us,
                      trials[i].config.text());
  };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  return order;
}

Finals::Finals(const TuneRequest& request, const TuneTools& tools, TrialStore& store, QuietWatch& watch, Wait wait)
    : request_(request), tools_(tools), store_(store), watch_(watch), wait_(std::move(wait)) {
  if (request_.default_config) default_id_ = request_.space->find(*request_.default_config);
}

void Finals::run(TuneResult& result, std::vector<Trial> others, const std::stop_token& stop) {
  others_ = std::move(others);
  while (const std::optional<std::vector<Finalist>> finalists = next_finalists(result)) {
    if (stop.stop_requested()) throw Stopped();
    if (run_round(*finalists, result)) return;
  }
}

std::vector<Trial> Finals::best_outside_duels(const TuneResult& result) const {
  std::vector<Trial> best;
  for (const std::vector<Trial>* const trials : {&result.trials, &others_}) {
    for (const Trial& trial : *trials) {
      if (trial.result.outcome == Outcome::ok && !dueled_.contains(trial.id)) best.push_back(trial);
    }
  }
  std::sort(best.begin(), best.end(), [](const Trial& a, const Trial& b) {
    return std::pair(a.result.measurement.median_us, a.id) < std::pair(b.result.measurement.median_us, b.id);
  });
  if (best.size() > request_.finalists) best.resize(request_.finalists);
  return best;
}

// The best trials, and at first the default and the winner that the cache holds, where they are not among
// them and did not fail. None where there are no more.
std::optional<std::vector<Finals::Finalist>> Finals::next_finalists(const TuneResult& result) {
  std::vector<Trial> chosen = best_outside_duels(result);
  const auto add = [&](std::optional<ConfigId> id) {
    const auto is_it = [&](const Trial& trial) { return trial.id == *id; };
    if (!id || std::any_of(chosen.begin(), chosen.end(), is_it)) return;
    const auto done = std::find_if(result.trials.begin(), result.trials.end(), is_it);
    if (done != result.trials.end() && !has_time(done->result.outcome)) return;
    chosen.push_back({.id = *id, .config = request_.space->config(*id)});
  };
  if (dueled_.empty()) {
    add(default_id_);
    if (const auto config = store_.winner()) add(request_.space->find_text(*config));
  }
  if (chosen.empty()) return std::nullopt;

  std::vector<Finalist> ready;
  for (const Trial& trial : chosen) {
    dueled_.insert(trial.id);
    if (std::optional<Finalist> finalist = prepare(trial)) ready.push_back(*std::move(finalist));
  }
  return ready;
}

std::optional<Finals::Finalist> Finals::prepare(const Trial& trial) {
  Finalist finalist{trial, {.config = trial.config}};
  if (request_.kernel == nullptr) return finalist;
  Candidate& candidate = finalist.candidate;
  candidate.plan = request_.kernel->plan(trial.config, request_.problem, tools_.device.info().limits);
  if (tools_.compiler == nullptr) return finalist;
  candidate.build = wait_(tools_.compiler->submit(candidate.plan.unit));
  if (candidate.build == nullptr || candidate.build->outcome != Outcome::ok) return std::nullopt;
  return finalist;
}

// One that is faster than the ceilings seem to allow is judged twice.
TrialResult Finals::verify(const Candidate& candidate, double time_us) {
  const double limit_s = request_.policy.time_limit_s;
  TrialResult check = tools_.device.verify(candidate, ~request_.seed, limit_s);
  if (check.outcome != Outcome::ok || !is_unusual(time_us, request_.least_us)) return check;
  const std::string text = format(
      "The winner takes %.3g us, %.0f%% of the least that the GPU's ceilings allow: "
      "it is judged on other inputs once more.",
      time_us, 100 * time_us / request_.least_us);
  tools_.events.emit(Warning{WarningKind::unusual_time, text});
  return tools_.device.verify(candidate, random_seed(), limit_s);
}

Finals::Duel Finals::duel(const std::vector<Finalist>& finalists) {
  Duel duel;
  const std::vector<Candidate> candidates = gathered(finalists, &Finalist::candidate);
  tools_.events.emit(PhaseChanged{Phase::duel});
  std::vector<TrialResult> results;
  const bool sound = watch_.measure_quietly([&] {
    results = tools_.device.duel(candidates,
                                 {.rounds = request_.duel_rounds, .timing = request_.policy.timing, .proves = true});
  });
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    duel.trials.push_back(finalists[i].trial);
    duel.trials.back().result = results[i];
    duel.trials.back().result.contended = !sound;
    reject_impossible(duel.trials.back().result, request_.least_us);
  }
  tools_.events.emit(PhaseChanged{Phase::verifying});
  const std::vector<std::size_t> order =
      request_.foreign ? rank_recorded(duel.trials) : rank_duel(duel.trials, default_id_);
  for (const std::size_t i : order) {
    TrialResult& result = duel.trials[i].result;
    if (result.outcome != Outcome::ok) break;
    const TrialResult check = verify(candidates[i], result.measurement.median_us);
    if (check.outcome == Outcome::ok) {
      duel.served = by_itself(candidates[i], result);
      if (!duel.served || duel.served->outcome == Outcome::ok) {
        duel.winner = i;
        break;
      }
      result.outcome = duel.served->outcome;
      result.message = "by itself: " + duel.served->message;
      continue;
    }
    result.outcome = check.outcome;
    result.message = "on inputs from another seed: " + check.message;
  }
  return duel;
}

namespace {

// The medians of those that were right too and are a tie with the winner, fastest first.
std::vector<double> tied_with(const Trial& winner, const std::vector<Trial>& duel) {
  const double time = winner.result.measurement.median_us;
  std::vector<double> tied;
  for (const Trial& trial : duel) {
    const double other = trial.result.measurement.median_us;
    const bool near = std::max(time, other) <= std::min(time, other) * (1 + kTie);
    if (trial.id != winner.id && trial.result.outcome == Outcome::ok && near) tied.push_back(other);
  }
  std::sort(tied.begin(), tied.end());
  return tied;
}

}  // namespace

namespace {

TimingResult timing_result(Timing timing, const std::vector<Trial>& trials, std::size_t winner,
                           std::optional<ConfigId> default_id) {
  const auto time_of = [&](std::size_t i) {
    const TrialResult& result = trials[i].result;
    return result.outcome == Outcome::ok ? result.measurement.median_us : 0;
  };
  TimingResult figures{.timing = timing, .winner_us = time_of(winner)};
  const std::size_t first = rank_duel(trials, default_id).front();
  const bool wins = time_of(first) == 0 || (time_of(winner) > 0 && time_of(winner) <= time_of(first) * (1 + kTie));
  figures.fastest = trials[wins ? winner : first].config.text();
  figures.fastest_us = time_of(wins ? winner : first);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].id == default_id) figures.default_us = time_of(i);
  }
  return figures;
}

}  // namespace

void Finals::measure_timings(const std::vector<Finalist>& finalists, const Duel& own, TuneResult& result) {
  if (!request_.all_timings || tools_.device.info().recorded || request_.foreign) return;
  const std::vector<Candidate> candidates = gathered(finalists, &Finalist::candidate);
  for (const Timing timing : kTimings) {
    std::vector<Trial> trials = own.trials;
    if (timing != request_.policy.timing) {
      std::vector<TrialResult> results;
      watch_.measure_quietly([&] { results = tools_.device.duel(candidates, {request_.duel_rounds, timing}); });
      for (std::size_t i = 0; i < trials.size(); ++i) {
        // A finalist that was wrong on fresh inputs counts under no timing.
        if (has_time(trials[i].result.outcome)) trials[i].result = std::move(results[i]);
      }
    }
    result.timings.push_back(timing_result(timing, trials, *own.winner, default_id_));
  }
}

std::optional<TrialResult> Finals::by_itself(const Candidate& candidate, const TrialResult& dueled) {
  if (dueled.outcome != Outcome::ok || !dueled.measurement.follows_clock) return std::nullopt;
  TrialResult alone;
  const bool sound = watch_.measure_quietly([&] {
    alone = tools_.device.duel({candidate}, {request_.duel_rounds, request_.policy.timing}).front();
  });
  alone.contended = dueled.contended || !sound;
  reject_impossible(alone, request_.least_us);
  return alone;
}

void Finals::serve_default(TuneResult& result) {
  Trial& baseline = *result.baseline;
  const std::optional<TrialResult> served = by_itself(result.default_candidate, baseline.result);
  if (!served || served->outcome != Outcome::ok) return;
  baseline.result = *served;
  if (rank_duel({*result.best, baseline}, default_id_).front() == 0) return;
  if (verify(result.default_candidate, served->measurement.median_us).outcome != Outcome::ok) return;
  result.best = baseline;
  result.winner = result.default_candidate;
  result.tied.clear();
}

bool Finals::run_round(const std::vector<Finalist>& finalists, TuneResult& result) {
  Duel outcome = duel(finalists);
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    const Trial& trial = outcome.trials[i];
    // A finalist that failed here is a failure for later searches too.
    if (!has_time(trial.result.outcome)) store_.put(trial, finalists[i].candidate.build.get());
    if (trial.id != default_id_) continue;
    result.baseline = trial;
    if (trial.result.outcome == Outcome::ok) result.default_candidate = finalists[i].candidate;
  }
  if (!outcome.winner) return false;
  result.best = outcome.trials[*outcome.winner];
  result.tied = tied_with(*result.best, outcome.trials);
  result.winner = finalists[*outcome.winner].candidate;
  if (outcome.served) result.best->result = *outcome.served;
  if (result.baseline && result.baseline->id == result.best->id) {
    result.baseline = result.best;
  } else if (result.baseline && outcome.served) {
    serve_default(result);
  }
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    if (finalists[i].trial.id == result.best->id) outcome.winner = i;
  }
  measure_timings(finalists, outcome, result);
  store_.put_winner(result);
  return true;
}

}  // namespace moetune
