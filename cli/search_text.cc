#include "cli/search_text.h"

#include <utility>

#include "base/json_fields.h"
#include "cli/text.h"
#include "tuner/finals.h"

namespace moetune {
namespace {

std::string clock_text(const Document& best) {
  std::string text;
  if (const std::size_t clock = count_field(best, "sm_clock_mhz"); clock > 0) text += format("  at %zu MHz", clock);
  if (flag_field(best, "throttled")) text += ", lowered for heat or power";
  if (flag_field(best, "unsettled")) text += "  (the clocks did not settle: measure again)";
  return text;
}

std::string figure_text(const std::string& unit, double figure) {
  return format("%.6g", figure) + (unit.empty() ? "" : " " + unit);
}

std::string objective_line(const Document& objective) {
  return text_field(objective, "name") + ", the " + text_field(objective, "better") + " the better";
}

// Shows the best figure of an objective other than time, with the best recorded one if they differ.
std::string best_figure_line(const std::string& unit, const Document& best) {
  const double figure = figure_field(best, "figure"), recorded = figure_field(best, "best_recorded");
  if (figure == recorded) return figure_text(unit, figure) + "  (the best recorded)";
  return figure_text(unit, figure) + "  (the best recorded is " + figure_text(unit, recorded) + ")";
}

std::string best_line(const Document& best) {
  std::string text = time_text(figure_field(best, "time_us"));
  const Document& interval = field(best, "interval_us");
  if (interval.is_array() && interval.size() == 2 && interval[0].is_number() && interval[1].is_number() &&
      interval[1].get<double>() > interval[0].get<double>())
    text += "  [" + time_text(interval[0].get<double>()) + ", " + time_text(interval[1].get<double>()) + "]";
  for (const auto& [name, unit] : {std::pair("tb_s", Unit::tb_s), std::pair("tflop_s", Unit::tflop_s)}) {
    if (const double rate = figure_field(best, name); rate > 0) text += "  " + rate_text({rate, unit});
  }
  if (const double fraction = figure_field(best, "roofline"); fraction > 0)
    text += "  " + percent_text(fraction) + " of the roofline (" + text_field(best, "bound") + ")";
  if (const double regret = figure_field(best, "regret"); regret > 0)
    text += format("  %.3f× the recorded optimum", regret);
  return text + clock_text(best) + (flag_field(best, "contended") ? "  (contended: somebody else used the GPU)" : "");
}

std::string trials_line(const Document& counts) {
  std::string text = std::to_string(count_field(counts, "total"));
  const char* before = ": ";
  for (const Outcome outcome : kOutcomes) {
    const std::string name(outcome_name(outcome));
    const std::size_t count = count_field(counts, name.c_str());
    if (count == 0 || outcome == Outcome::pruned) continue;
    text += std::exchange(before, ", ") + std::to_string(count) + " ";
    for (const char c : name) text += c == '_' ? ' ' : c;
  }
  const auto add = [&](const char* words, std::size_t count) {
    if (count > 0) text += format(words, count);
  };
  add("; %zu of them resumed", count_field(counts, "resumed"));
  add("; %zu more pruned", count_field(counts, "pruned"));
  add("; %zu more compiled but not measured", count_field(counts, "unmeasured"));
  return text;
}

// "" if no trial was disturbed.
std::string contention_line(const Document& contention) {
  std::string text;
  if (const std::size_t count = count_field(contention, "contended_trials"); count > 0)
    text = format("%zu of the trials were measured while somebody else used the GPU; ", count);
  if (const std::size_t count = count_field(contention, "unchecked_trials"); count > 0)
    text += format("%zu of the trials were stopped before it was known whether somebody else used the GPU; ", count);
  return text.empty() ? "" : text + "the next search measures them again";
}

// Names the disturbed and the other time only above a tenth of the whole. On a recording, other is the strategy's time.
std::string time_line(const Document& time, double wall) {
  const auto seconds = [&](const char* name) { return figure_field(time, name); };
  const auto if_much = [&](const char* name, const char* part) {
    return seconds(name) > wall / 10 ? format(", %.2f ", seconds(name)) + part : "";
  };
  const std::string other = if_much("disturbed_s", "disturbed") + if_much("other_s", "other");
  return format(
      "%.2f s: %.2f preparing, %.2f waiting for the compiler, %.2f validating, %.2f measuring, "
      "%.2f finishing%s; %.2f of compiling beside it",
      wall, seconds("preparing_s"), seconds("waiting_s"), seconds("validating_s"), seconds("measuring_s"),
      seconds("finishing_s"), other.c_str(), seconds("compiling_s"));
}

std::string default_line(const Document& baseline, double best_us) {
  const double time = figure_field(baseline, "time_us");
  const auto outcome = outcome_from_name(text_field(baseline, "outcome"));
  if (!outcome || !has_time(*outcome)) return text_field(baseline, "outcome") + ": " + text_field(baseline, "message");
  return time_text(time) + (best_us > 0 ? format("  (the best is %.2f× as fast)", time / best_us) : "");
}

std::string confidence_line(const Document& confidence) {
  return percent_text(figure_field(confidence, "within_5_percent")) + ": within 5% of the fastest" +
         (flag_field(confidence, "at_floor") ? ", and at the roofline; " : "; ") +
         format("%zu more trials should gain %.1f%%", kMoreTrials, figure_field(confidence, "expected_gain") * 100);
}

// Why the search ended before its budget; "" if it did not, or if Ctrl-C says so already.
std::string ending(const TuneSettings& settings, const Document& found) {
  const Document& counts = field(found, "trials");
  if (flag_field(found, "converged")) {
    return format("%zu more trials should gain less than %g%% (--until-converged)", kMoreTrials,
                  settings.until_gain * 100);
  }
  if (flag_field(found, "out_of_time")) return format("%g s were over (--time)", settings.time_budget_s);
  if (flag_field(found, "exhausted")) return "every configuration was tried";
  if (flag_field(found, "interrupted") || count_field(counts, "total") >= settings.budget) return "";
  if (flag_field(field(found, "proposer"), "done")) return "the proposer had nothing more to suggest";
  return format("%zu configurations were pruned after compiling", count_field(counts, "pruned"));
}

// How many of the trials a program suggested; "" if there was none.
std::string proposer_line(const Document& proposer, std::size_t trials) {
  if (!proposer.is_object()) return "";
  std::string text = text_field(proposer, "name");
  if (!text_field(proposer, "left_out").empty()) text += " (left out)";
  text += format(": %zu of the %zu trials", count_field(proposer, "suggested"), trials);
  const std::size_t rejected = count_field(proposer, "rejected");
  return rejected == 0 ? text : text + format("; %zu more were rejected", rejected);
}

// "" if no variant was tried that was right.
std::string variant_line(const Document& variant) {
  if (!variant.is_object()) return "";
  const double time = figure_field(variant, "time_us"), best = figure_field(variant, "best_us");
  if (!flag_field(variant, "wins"))
    return "the best source of the proposer does not beat the best configuration: " +
           (text_field(variant, "message").empty() ? time_text(time) : text_field(variant, "message"));
  return format("%.2f× as fast as the best configuration, with %s: ", best / time,
                text_field(variant, "config").c_str()) +
         (text_field(variant, "folder").empty() ? text_field(variant, "name") : text_field(variant, "folder"));
}

// "" if nothing that was as good came before the winner. Of a recording without a default the fastest wins, and nobody
// asks why.
std::string tie_line(const Document& tied, double best_us) {
  if (!tied.is_array() || tied.empty() || !tied[0].is_number() || tied[0].get<double>() >= best_us) return "";
  return format("with %zu more within %.1f%%, the fastest %s: ", tied.size(), kTie * 100,
                time_text(tied[0].get<double>()).c_str()) +
         "the default wins a tie, otherwise the first in the space's order";
}

}  // namespace

std::string measured_text(const std::optional<Objective>& objective, const Trial& trial) {
  return objective && !objective->is_time() ? figure_text(objective->unit, objective->figure(trial.id))
                                            : time_text(trial.result.measurement.median_us);
}

std::string timings_line(const Document& timings) {
  std::string text, others;
  for (const Timing timing : kTimings) {
    const std::string name(timing_name(timing));
    const Document& one = field(timings, name.c_str());
    if (!one.is_object()) continue;
    const double time = figure_field(one, "time_us");
    text += (text.empty() ? "" : ", ") + name + " " + (time > 0 ? time_text(time) : "unknown");
  }
  for (const Document& name : field(timings, "differs"))
    if (name.is_string()) others += (others.empty() ? "" : " and ") + name.get<std::string>();
  return others.empty() ? text + "; no other winner under any" : text + "; another winner if " + others;
}

void print_search(const SearchRequest& request, const Document& found, const Output& output) {
  const Document &best = field(found, "best"), &objective = field(found, "objective");
  const double best_us = figure_field(best, "time_us");
  Table table({});
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) table.add({name, text});
  };
  const std::string problem = text_field(found, "problem");
  add("problem", problem.empty() ? "(not said)" : problem);
  if (objective.is_object()) add("objective", objective_line(objective));
  const Document& device = field(found, "device");
  table.add({"device", text_field(device, "name") + (flag_field(device, "recorded") ? ", recorded" : "")});
  if (best.is_object()) {
    add("best", best.contains("figure") ? best_figure_line(text_field(objective, "unit"), best) : best_line(best));
    table.add({"config", text_field(best, "config")});
    add("tie", tie_line(field(found, "tied_us"), best_us));
  }
  if (const Document& baseline = field(found, "default"); baseline.is_object())
    add("default", default_line(baseline, best_us));
  if (const Document& timings = field(found, "timings"); timings.is_object()) add("timings", timings_line(timings));
  if (const Document& confidence = field(found, "confidence"); confidence.is_object())
    add("confidence", confidence_line(confidence));
  add("trials", trials_line(field(found, "trials")));
  add("proposer", proposer_line(field(found, "proposer"), count_field(field(found, "trials"), "total")));
  add("variant", variant_line(field(found, "variant")));
  add("ended early", ending(request.settings, found));
  add("contended", contention_line(field(found, "contention")));
  add("time", time_line(field(found, "time"), figure_field(found, "wall_s")));
  add("cache", text_field(found, "cache"));
  output.result() << text_field(found, "kernel") << "\n" << table.text("  ", output.columns());
}

void print_search_hints(const Document& found, const Output& output) {
  const Document& variant = field(found, "variant");
  const std::string folder = text_field(variant, "folder");
  if (!folder.empty())
    output.note("The variant is a kernel of its own. To tune it and store its winner: moetune search " +
                text_field(variant, "name") + " --kernels " + shell_word(folder) + " --problem " +
                shell_word(text_field(found, "problem")) + " --cache " + shell_word(text_field(found, "cache")));
  const Document &best = field(found, "best"), &counts = field(found, "trials");
  const std::size_t trials = count_field(counts, "total"), pruned = count_field(counts, "pruned");
  if (flag_field(found, "interrupted")) {
    output.note(format("Interrupted after %zu trials; ", trials) +
                (text_field(found, "cache").empty() ? "with --no-cache they are not kept."
                                                    : "the same command continues from there.") +
                (flag_field(found, "provisional") ? " The best so far is stored as a provisional winner." : ""));
  } else if (!best.is_object() && trials > 0) {
    output.warn("No valid configuration was found; --verbose shows why each trial failed.");
  } else if (!best.is_object() && pruned > 0) {
    output.warn(
        format("No trial was measured: %zu %s pruned, as --verbose shows; "
               "choose another problem, or loosen the space's constraints.",
               pruned, pruned == 1 ? "configuration was" : "configurations were"));
  } else if (!best.is_object()) {
    output.warn("No trial was started; give the search more time or another budget.");
  } else if (!flag_field(field(found, "device"), "recorded") && figure_field(best, "roofline") <= 0) {
    output.note("The roofline fraction is unknown here: `moetune devices --calibrate` measures this GPU once.");
  }
}

}  // namespace moetune
