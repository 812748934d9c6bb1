#include <limits>
#include <utility>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "jobs/search_job.h"
#include "search/searcher.h"

namespace moetune {
namespace {

class SearchCommand : public Command {
 public:
  std::string_view name() const override { return "search"; }
  std::string_view summary() const override {
    return "find the fastest configuration of a kernel for a workload";
  }
  std::string_view details() const override;
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  SearchRequest request_;
  double until_gain_percent_ = 0;
  bool history_ = false, verbose_ = false;
};

std::string_view SearchCommand::details() const {
  return "Trials are kept in the cache as they land: after Ctrl-C, or any other end, the same\n"
         "command continues where it stopped. --device auto takes a GPU that no other process\n"
         "computes on, the one with the most free memory, else a shipped recording. A recording\n"
         "also serves as replay:FILE, Kernel Tuner's cache files included; the kernel may then be\n"
         "left out, nothing is compiled for a kernel that is not moetune's, and its trials are\n"
         "kept under the file's own digest.\n";
}

std::string strategy_names() {
  std::string names;
  for (const StrategyInfo& info : strategies()) names += (names.empty() ? "" : ", ") + info.name;
  return names;
}

void SearchCommand::declare(OptionTable& table) {
  TuneSettings& settings = request_.settings;
  declare_workload(table, request_.target.workload, false);
  table.whole("budget", settings.budget, 1, 1'000'000'000,
              "trials; what is compiled and not measured costs none");
  table.seconds("time", settings.time_budget_s, "start no trial after this many seconds");
  table.positive("until-converged", "PERCENT", "percentage", until_gain_percent_,
                 "end where 60 more trials should gain less than this");
  table.text("strategy", "NAME", settings.strategy, "how to search: " + strategy_names());
  table.whole("seed", settings.seed, 0, std::numeric_limits<std::uint64_t>::max(),
              "one seed, one trajectory on a recording; on a GPU times differ anyhow");
  declare_device(table, request_.target.device);
  declare_cache(table, request_.target.cache);
  table.flag("fresh", settings.fresh, "forget this workload's stored trials");
  table.flag("cold", request_.cold, "take no hints from the cache's other workloads");
  table.flag("no-compile", request_.no_compile, "recordings only: do not compile what is replayed");
  declare_threads(table, request_.threads);
  table.whole("finalists", settings.finalists, 1, 100, "configurations that meet again at the end");
  table.whole("in-flight", settings.in_flight, 1, 4096, "configurations compiled ahead of measuring");
  table.seconds("trial-time", settings.policy.time_limit_s,
                "time limit of one trial on the GPU; a worker that has not answered 2 s later is killed");
  table.flag("history", history_, "with --json: every trial, in order");
  table.flag("verbose", verbose_, "a line a trial instead of the progress line");
}

std::string best_line(const Subject& subject, const Trial& best) {
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
  return text + (measured.throttled ? "  (the GPU was throttled)" : "");
}

std::string trials_line(const TrialCounts& counts) {
  std::string text = std::to_string(counts.total());
  const char* before = ": ";
  for (const Outcome outcome : kOutcomes) {
    if (counts[outcome] == 0) continue;
    text += std::exchange(before, ", ") + std::to_string(counts[outcome]) + " ";
    for (const char c : outcome_name(outcome)) text += c == '_' ? ' ' : c;
  }
  if (counts.resumed > 0) text += format("; %zu of them resumed", counts.resumed);
  if (counts.unmeasured > 0) text += format("; %zu more compiled but not measured", counts.unmeasured);
  return text;
}

// What no part names is said where it is much: on a recording it is the strategy's own time.
std::string time_line(const TimeSpent& time) {
  const std::string other = time.other() > time.wall / 10 ? format(", %.2f other", time.other()) : "";
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
         format("%zu more trials should gain ", kMoreTrials) + percent_text(confidence.expected_gain);
}

void print_result(const SearchResult& result, std::ostream& out) {
  const Subject& subject = result.subject;
  const TuneResult& tune = result.tune;
  Table table({});
  table.add({"problem", subject.problem.empty() ? "(not said)" : subject.problem});
  table.add({"device", subject.device.key.name + (subject.device.recorded ? ", recorded" : "")});
  if (tune.best) {
    table.add({"best", best_line(subject, *tune.best)});
    table.add({"config", tune.best->config.text()});
  }
  if (tune.baseline) table.add({"default", default_line(*tune.baseline, tune.best)});
  if (tune.confidence.known) table.add({"confidence", confidence_line(tune.confidence)});
  table.add({"trials", trials_line(tune.counts)});
  table.add({"time", time_line(tune.time)});
  if (!subject.cache.empty()) table.add({"cache", subject.cache});
  out << subject.kernel << "\n" << table.text("  ");
}

void print_hints(const SearchResult& result, const Output& output) {
  if (result.tune.interrupted) {
    output.note(format("Interrupted after %zu trials; ", result.tune.counts.total()) +
                (result.subject.cache.empty() ? "with --no-cache they are not kept."
                                              : "the same command continues from there."));
  } else if (!result.tune.best) {
    output.note("No valid configuration was found; --verbose shows why each trial failed.");
  } else if (!result.subject.device.recorded && !result.subject.floor) {
    output.note(
        "The roofline fraction is unknown here: `moetune devices --calibrate` measures this GPU once.");
  }
}

// Collects what --history prints.
class TrialList {
 public:
  void handle(const Event& event) {
    if (const auto* ended = std::get_if<TrialEnded>(&event.what))
      trials_.push_back(trial_document(ended->trial));
  }
  const Document& trials() const { return trials_; }

 private:
  Document trials_ = Document::array();
};

int SearchCommand::run(Output& output, std::stop_token stop) {
  require_kernel(request_.target);
  if (until_gain_percent_ > 0) request_.settings.until_gain = until_gain_percent_ / 100;
  Progress progress(output, {.verbose = verbose_});
  TrialList history;
  const EventListener listener = [&](const Event& event) {
    progress.handle(event);
    if (history_) history.handle(event);
  };
  const SearchResult result = search(request_, {.events = {.listener = listener}, .stop = stop});
  progress.finished();
  print_result(result, output.result());
  print_hints(result, output);
  Document document = search_document(request_, result);
  if (history_) document["history"] = history.trials();
  output.document(document);
  return result.tune.best ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_search_command() { return std::make_unique<SearchCommand>(); }

}  // namespace moetune
