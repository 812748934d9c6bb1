#include <limits>
#include <utility>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "jobs/misses.h"
#include "jobs/search_job.h"
#include "search/searcher.h"
#include "tuner/finals.h"

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
  struct Found {
    Document document;
    bool any = false, interrupted = false;
  };
  Found search_one(const SearchRequest& request, Output& output, std::stop_token stop) const;
  int search_missed(Output& output, std::stop_token stop);

  SearchRequest request_;
  std::string misses_;
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
  table.text(
      "from-misses", "FILE", misses_,
      "instead of a KERNEL: each shape that a server missed (moetune_write_misses), most frequent first");
  table.whole("budget", settings.budget, 1, 1'000'000'000,
              "trials; what is compiled and not measured costs none");
  table.seconds("time", settings.time_budget_s, "start no trial after this many seconds");
  table.positive("until-converged", "PERCENT", "percentage", until_gain_percent_,
                 "end when 60 more trials should gain less than this");
  table.text("strategy", "NAME", settings.strategy, "how to search: " + strategy_names());
  table.whole("seed", settings.seed, 0, std::numeric_limits<std::uint64_t>::max(),
              "the same seed repeats a search of a recording; a GPU's times differ from run to run");
  declare_device(table, request_.target.device);
  declare_cache(table, request_.target.cache);
  table.flag("fresh", settings.fresh, "forget this workload's stored trials");
  table.flag("cold", request_.cold, "take no hints from the cache's other workloads");
  table.flag("no-compile", request_.no_compile, "recordings only: do not compile what is replayed");
  declare_threads(table, request_.threads);
  table.whole("finalists", settings.finalists, 1, 100,
              "of the best configurations to measure again at the end, side by side");
  table.whole("in-flight", settings.in_flight, 1, 4096, "configurations compiled ahead of measuring");
  table.seconds("trial-time", settings.policy.time_limit_s,
                "time limit of one trial on the GPU; a worker that has not answered 2 s later is killed");
  table.whole("quiet-wait", settings.quiet_wait_s, 0, 1'000'000, kQuietWaitDoc);
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
  if (measured.throttled) text += "  (throttled: the GPU lowered its clocks for heat or power)";
  if (best.result.contended) text += "  (contended: somebody else used the GPU)";
  return text;
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

std::string contention_line(const Contention& contention) {
  return format(
      "%zu of the trials were measured while somebody else used the GPU; the next search measures them again",
      contention.contended);
}

// What no part names is said where it is much: on a recording it is the strategy's own time.
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

void print_result(const SearchRequest& request, const SearchResult& result, const Output& output) {
  const Subject& subject = result.subject;
  const TuneResult& tune = result.tune;
  Table table({});
  table.add({"problem", subject.problem.empty() ? "(not said)" : subject.problem});
  table.add({"device", subject.device.key.name + (subject.device.recorded ? ", recorded" : "")});
  if (tune.best) {
    table.add({"best", best_line(subject, *tune.best)});
    table.add({"config", tune.best->config.text()});
    // Of a recording without a default the fastest wins, and nobody asks why.
    if (!tune.tied.empty() && tune.tied.front() < tune.best->result.measurement.median_us)
      table.add({"tie", tie_line(tune)});
  }
  if (tune.baseline) table.add({"default", default_line(*tune.baseline, tune.best)});
  if (tune.confidence.known) table.add({"confidence", confidence_line(tune.confidence)});
  table.add({"trials", trials_line(tune.counts)});
  if (const std::string why = ending(request, tune); !why.empty()) table.add({"ended early", why});
  if (tune.contention.contended > 0) table.add({"contended", contention_line(tune.contention)});
  table.add({"time", time_line(tune.time)});
  if (!subject.cache.empty()) table.add({"cache", subject.cache});
  output.result() << subject.kernel << "\n" << table.text("  ", output.columns());
}

void print_hints(const SearchResult& result, const Output& output) {
  if (result.tune.interrupted) {
    output.note(format("Interrupted after %zu trials; ", result.tune.counts.total()) +
                (result.subject.cache.empty() ? "with --no-cache they are not kept."
                                              : "the same command continues from there."));
  } else if (!result.tune.best && result.tune.counts.total() == 0) {
    output.note("No trial was started; give the search more time or another budget.");
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
    const auto* const ended = std::get_if<TrialEnded>(&event.what);
    if (ended == nullptr) return;
    Document trial = trial_document(ended->trial);
    const auto is_same = [&](const Document& other) { return other["config"] == trial["config"]; };
    const auto before = std::find_if(trials_.begin(), trials_.end(), is_same);
    if (before != trials_.end()) {
      *before = std::move(trial);
    } else {
      trials_.push_back(std::move(trial));
    }
  }
  const Document& trials() const { return trials_; }

 private:
  Document trials_ = Document::array();
};

SearchCommand::Found SearchCommand::search_one(const SearchRequest& request, Output& output,
                                               std::stop_token stop) const {
  Progress progress(output, {.verbose = verbose_});
  TrialList history;
  const EventListener listener = [&](const Event& event) {
    progress.handle(event);
    if (history_) history.handle(event);
  };
  const SearchResult result = search(request, {.events = {.listener = listener}, .stop = stop});
  progress.finished();
  print_result(request, result, output);
  print_hints(result, output);
  Document document = search_document(request, result);
  if (history_) document["history"] = history.trials();
  return {std::move(document), result.tune.best.has_value(), result.tune.interrupted};
}

int SearchCommand::search_missed(Output& output, std::stop_token stop) {
  const JobTarget& target = request_.target;
  if (target.workload.kernel || target.workload.names_problem())
    throw BadInput(
        "--from-misses names the kernels and problems itself; leave out KERNEL, --problem and --preset");
  const std::vector<MissedWorkload> missed = read_misses(misses_);
  Document searches = Document::array();
  bool all = true;
  for (const MissedWorkload& one : missed) {
    SearchRequest request = request_;
    request.target.workload.kernel = one.kernel;
    request.target.workload.problem = one.problem;
    Found found = search_one(request, output, stop);
    all = all && found.any;
    searches.push_back(std::move(found.document));
    if (found.interrupted) break;
  }
  if (missed.empty()) output.result() << misses_ << " lists no miss: nothing to search.\n";
  output.document({{"misses", misses_}, {"searches", std::move(searches)}});
  return all ? kDone : kNothingFound;
}

int SearchCommand::run(Output& output, std::stop_token stop) {
  if (history_ && !output.json())
    throw BadInput(
        "--history lists the trials in the document of --json; add it, or take --verbose for the screen");
  if (until_gain_percent_ > 0) request_.settings.until_gain = until_gain_percent_ / 100;
  if (!misses_.empty()) return search_missed(output, stop);
  require_kernel(request_.target);
  const Found found = search_one(request_, output, stop);
  output.document(found.document);
  return found.any ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_search_command() { return std::make_unique<SearchCommand>(); }

}  // namespace moetune
