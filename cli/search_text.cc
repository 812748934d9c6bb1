#include "cli/search_text.h"

#include <utility>

#include "cli/text.h"
#include "tuner/finals.h"

namespace moetune {
namespace {

std::string clock_text(const Measurement& measured) {
  std::string text;
  if (measured.sm_clock_mhz > 0) text += format("  at %d MHz", measured.sm_clock_mhz);
  if (measured.throttled) text += ", lowered for heat or power";
  if (!measured.settled) text += "  (the clocks did not settle: measure again)";
  return text;
}

std::string figure_text(const Objective& objective, double figure) {
  return format("%.6g", figure) + (objective.unit.empty() ? "" : " " + objective.unit);
}

std::string objective_line(const Objective& objective) {
  return objective.name +
         (objective.larger_is_better ? ", the larger the better" : ", the smaller the better");
}

// The line of the best trial if the objective is not time.
std::string best_figure_line(const Objective& objective, const Trial& best) {
  const double figure = objective.figure(best.id);
  if (figure == objective.best) return figure_text(objective, figure) + "  (the best recorded)";
  return figure_text(objective, figure) + "  (the best recorded is " +
         figure_text(objective, objective.best) + ")";
}

std::string best_line(const Subject& subject, const Trial& best) {
  if (!subject.holds_times()) return best_figure_line(*subject.objective, best);
  const Measurement& measured = best.result.measurement;
  std::string text = time_text(measured.median_us);
  if (measured.high_us > measured.low_us) {
    text += "  [" + time_text(measured.low_us) + ", " + time_text(measured.high_us) + "]";
  }
  if (subject.work.amount > 0) text += "  " + rate_text(subject.work.rate(measured.median_us));
  if (const auto fraction = subject.roofline_fraction(measured.median_us)) {
    text += "  " + percent_text(*fraction) + " of the roofline (" + std::string(subject.floor->bound) + ")";
  }
  if (subject.optimum_us) {
    text += format("  %.3f× the recorded optimum", measured.median_us / *subject.optimum_us);
  }
  text += clock_text(measured);
  if (best.result.contended) text += "  (contended: somebody else used the GPU)";
  return text;
}

std::string trials_line(const TrialCounts& counts) {
  std::string text = std::to_string(counts.total());
  const char* before = ": ";
  for (const Outcome outcome : kOutcomes) {
    if (counts[outcome] == 0 || outcome == Outcome::pruned) continue;
    text += std::exchange(before, ", ") + std::to_string(counts[outcome]) + " ";
    for (const char c : outcome_name(outcome)) text += c == '_' ? ' ' : c;
  }
  if (counts.resumed > 0) text += format("; %zu of them resumed", counts.resumed);
  if (counts[Outcome::pruned] > 0) text += format("; %zu more pruned", counts[Outcome::pruned]);
  if (counts.unmeasured > 0) text += format("; %zu more compiled but not measured", counts.unmeasured);
  return text;
}

std::string contention_line(const Contention& contention) {
  std::string text;
  if (contention.contended > 0)
    text = format("%zu of the trials were measured while somebody else used the GPU; ", contention.contended);
  if (contention.unchecked > 0)
    text += format("%zu of the trials were stopped before it was known whether somebody else used the GPU; ",
                   contention.unchecked);
  return text + "the next search measures them again";
}

// Lists where the time went. Time that belongs to no part is named only if it is much; on a recording it is the
// strategy's own.
std::string time_line(const TimeSpent& time) {
  const auto if_much = [&](double seconds, const char* part) {
    return seconds > time.wall / 10 ? format(", %.2f ", seconds) + part : "";
  };
  const std::string other = if_much(time.disturbed, "disturbed") + if_much(time.other(), "other");
  return format(
      "%.2f s: %.2f preparing, %.2f waiting for the compiler, %.2f validating, %.2f measuring, "
      "%.2f finishing%s; %.2f of compiling beside it",
      time.wall, time.preparing, time.waiting, time.validating, time.measuring, time.finishing, other.c_str(),
      time.compiling);
}

std::string default_line(const Trial& baseline, const std::optional<Trial>& best) {
  if (!has_time(baseline.result.outcome)) {
    return std::string(outcome_name(baseline.result.outcome)) + ": " + baseline.result.message;
  }
  const double time = baseline.result.measurement.median_us;
  std::string text = time_text(time);
  if (best) text += format("  (the best is %.2f× as fast)", time / best->result.measurement.median_us);
  return text;
}

std::string confidence_line(const Confidence& confidence) {
  return percent_text(confidence.within_5_percent) + ": within 5% of the fastest" +
         (confidence.at_floor ? ", and at the roofline; " : "; ") +
         format("%zu more trials should gain %.1f%%", kMoreTrials, confidence.expected_gain * 100);
}

// Why the search ended before its budget; "" if it did not, or if Ctrl-C says so already.
std::string ending(const SearchRequest& request, const TuneResult& tune) {
  const TuneSettings& settings = request.settings;
  if (tune.converged) {
    return format("%zu more trials should gain less than %g%% (--until-converged)", kMoreTrials,
                  settings.until_gain * 100);
  }
  if (tune.out_of_time) return format("%g s were over (--time)", settings.time_budget_s);
  if (tune.exhausted) return "every configuration was tried";
  if (tune.interrupted || tune.counts.total() >= settings.budget) return "";
  return format("%zu configurations were pruned after compiling", tune.counts[Outcome::pruned]);
}

std::string tie_line(const TuneResult& tune) {
  return format("with %zu more within %.1f%%, the fastest %s: ", tune.tied.size(), kTie * 100,
                time_text(tune.tied.front()).c_str()) +
         "the default wins a tie, otherwise the first in the space's order";
}

}  // namespace

std::string measured_text(const std::optional<Objective>& objective, const Trial& trial) {
  return objective && !objective->is_time() ? figure_text(*objective, objective->figure(trial.id))
                                            : time_text(trial.result.measurement.median_us);
}

void print_search(const SearchRequest& request, const SearchResult& result, const Output& output) {
  const Subject& subject = result.subject;
  const TuneResult& tune = result.tune;
  Table table({});
  table.add({"problem", subject.problem.empty() ? "(not said)" : subject.problem});
  if (subject.objective) table.add({"objective", objective_line(*subject.objective)});
  table.add({"device", subject.device.key.name + (subject.device.recorded ? ", recorded" : "")});
  if (tune.best) {
    table.add({"best", best_line(subject, *tune.best)});
    table.add({"config", tune.best->config.text()});
    // Skipped if the fastest won, as in a recording without a default: nobody asks why.
    if (subject.holds_times() && !tune.tied.empty() &&
        tune.tied.front() < tune.best->result.measurement.median_us)
      table.add({"tie", tie_line(tune)});
  }
  if (tune.baseline) table.add({"default", default_line(*tune.baseline, tune.best)});
  if (tune.best && !tune.timings.empty())
    table.add({"timings", timings_line(tune.timings, tune.best->config.text())});
  if (tune.confidence.known && subject.holds_times())
    table.add({"confidence", confidence_line(tune.confidence)});
  table.add({"trials", trials_line(tune.counts)});
  if (const std::string why = ending(request, tune); !why.empty()) table.add({"ended early", why});
  if (tune.contention.contended + tune.contention.unchecked > 0)
    table.add({"contended", contention_line(tune.contention)});
  table.add({"time", time_line(tune.time)});
  if (!subject.cache.empty()) table.add({"cache", subject.cache});
  output.result() << subject.kernel << "\n" << table.text("  ", output.columns());
}

void print_search_hints(const SearchResult& result, const Output& output) {
  if (result.tune.interrupted) {
    output.note(format("Interrupted after %zu trials; ", result.tune.counts.total()) +
                (result.subject.cache.empty() ? "with --no-cache they are not kept."
                                              : "the same command continues from there.") +
                (result.tune.provisional ? " The best so far is stored as a provisional winner." : ""));
  } else if (!result.tune.best && result.tune.counts.total() == 0) {
    if (const std::size_t pruned = result.tune.counts[Outcome::pruned]; pruned > 0) {
      output.warn(
          format("No trial was measured: %zu %s pruned, as --verbose shows; "
                 "choose another problem, or loosen the space's constraints.",
                 pruned, pruned == 1 ? "configuration was" : "configurations were"));
    } else {
      output.warn("No trial was started; give the search more time or another budget.");
    }
  } else if (!result.tune.best) {
    output.warn("No valid configuration was found; --verbose shows why each trial failed.");
  } else if (!result.subject.device.recorded && !result.subject.floor) {
    output.note(
        "The roofline fraction is unknown here: `moetune devices --calibrate` measures this GPU once.");
  }
}

}  // namespace moetune
