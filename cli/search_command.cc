#include <limits>
#include <utility>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/lists.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/range_search.h"
#include "cli/remote_search.h"
#include "cli/search_text.h"
#include "jobs/search_job.h"
#include "jobs/stored/misses.h"
#include "search/searcher.h"
#include "serve/run/job_request.h"

namespace moetune {
namespace {

constexpr std::size_t kLongestShownMiss = 400;

class SearchCommand : public Command {
 public:
  std::string_view name() const override { return "search"; }
  std::string_view summary() const override { return "find the fastest configuration of a kernel for a workload"; }
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
  std::string misses_, timing_;
  RemoteOptions remote_;
  RangeOptions range_;
  double until_gain_percent_ = 0;
  bool history_ = false, verbose_ = false;
};

std::string_view SearchCommand::details() const {
  return "Trials are kept in the cache as they land: after Ctrl-C, or any other end, the same\n"
         "command continues where it stopped. --device auto takes a GPU that no other process\n"
         "computes on, the one with the most free memory, else a shipped recording. A recording\n"
         "also serves as replay:FILE, and so do the results of Kernel Tuner, KTT and T4 files: the\n"
         "kernel may then be left out, nothing is compiled, and trials are kept under the file's own\n"
         "digest.\n";
}

std::vector<std::string> strategy_names() { return gathered(strategies(), &StrategyInfo::name); }

std::string strategy_text() {
  return joined(strategy_names()) + "; external:COMMAND asks a program (docs/proposers.md)";
}

void SearchCommand::declare(OptionTable& table) {
  TuneSettings& settings = request_.settings;
  request_.target.replay.objective = "";  // the file's own
  declare_workload(table, request_.target.workload, false);
  table.text("from-misses", "FILE", misses_,
             "instead of a KERNEL: each shape that a server missed (moetune_write_misses), most frequent first");
  declare_range(table, range_);
  declare_remote(table, remote_);
  table.whole("budget", settings.budget, 1, 1'000'000'000, "trials; what is compiled and not measured costs none");
  table.span("time", settings.time_budget_s, "start no trial after that time");
  table.percent("until-converged", until_gain_percent_, "end when 60 more trials should gain less than this");
  table.text("strategy", "STRATEGY", settings.strategy, "how to search: " + strategy_text());
  table.choices("strategy", strategy_names());
  table.whole("seed", settings.seed, 0, std::numeric_limits<std::uint64_t>::max(),
              "the same seed repeats a search of a recording; a GPU's times differ from run to run");
  declare_timing(table, timing_, "overlapped; with --over chained; if named, the winner is timed under all");
  declare_device(table, request_.target.device);
  table.text("objective", "NAME[:min|max]", request_.target.replay.objective,
             "of another tuner's results: the figure to search for, as energy or GFLOP/s; by default the file's own");
  declare_cache(table, request_.target.cache);
  table.flag("fresh", settings.fresh, "forget the workload's stored trials; with --over, all of the range");
  table.flag("cold", request_.cold, "take no hints from the cache's other workloads");
  table.flag("no-compile", request_.no_compile, "recordings only: do not compile what is replayed");
  declare_threads(table, request_.threads);
  table.whole("finalists", settings.finalists, 1, 100,
              "of the best configurations to measure again at the end, side by side");
  table.whole("in-flight", settings.in_flight, 1, 4096, "configurations compiled ahead of measuring");
  table.span("trial-time", settings.policy.time_limit_s,
             "time limit of one trial on the GPU; a worker that has not answered 2 s later is killed");
  table.span("quiet-wait", settings.quiet_wait_s, kQuietWaitDoc);
  table.flag("history", history_, "with --json: every trial, in order");
  table.flag("verbose", verbose_, "a line a trial instead of the progress line");
}

// Collects what --history prints.
class TrialList {
 public:
  void handle(const Event& event) {
    if (const auto* const started = std::get_if<SearchStarted>(&event.what)) objective_ = started->objective;
    const auto* const ended = std::get_if<TrialEnded>(&event.what);
    if (ended == nullptr) return;
    Document trial = trial_document(ended->trial, objective_);
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
  std::optional<Objective> objective_;
};

SearchCommand::Found SearchCommand::search_one(const SearchRequest& request, Output& output,
                                               std::stop_token stop) const {
  Progress progress(output, {.verbose = verbose_});
  TrialList history;
  const EventListener listener = [&](const Event& event) {
    progress.handle(event);
    if (history_) history.handle(event);
  };
  const JobContext context{.events = {.listener = listener}, .stop = stop};
  Document document = remote_.server.empty() ? search_document(request, search(request, context))
                                             : remote_job(remote_, "search", search_fields(request),
                                                          request.target.cache, request.threads, context)
                                                   .result;
  progress.finished();
  if (document.is_null()) {
    output.note("Interrupted; the job is withdrawn.");
    return {{{"interrupted", true}}, false, true};
  }
  print_search(request, document, output);
  print_search_hints(document, output);
  if (history_) document["history"] = history.trials();
  const bool any = field(document, "best").is_object(), interrupted = flag_field(document, "interrupted");
  return {std::move(document), any, interrupted};
}

int SearchCommand::search_missed(Output& output, std::stop_token stop) {
  const JobTarget& target = request_.target;
  if (target.workload.kernel || target.workload.names_problem())
    throw BadInput("--from-misses names the kernels and problems itself; leave out KERNEL, --problem and --preset");
  if (!range_.over.empty())
    throw BadInput("--from-misses searches shapes; `moetune workloads from-misses --over` makes ranges of them");
  const std::vector<MissedWorkload> missed = read_misses(misses_);
  Document searches = Document::array(), left_out = Document::array();
  bool all = true;
  for (const MissedWorkload& one : missed) {
    SearchRequest request = request_;
    request.target.workload.kernel = one.kernel;
    request.target.workload.problem = one.problem;
    try {
      Found found = search_one(request, output, stop);
      all = all && found.any;
      searches.push_back(std::move(found.document));
      if (found.interrupted) break;
    } catch (const BadInput& error) {  // of another version, or too large for this GPU: the others are searched
      if (searches.empty() && left_out.size() + 1 == missed.size()) throw;
      all = false;
      output.warn(shortened(one.kernel + " " + one.problem, kLongestShownMiss) +
                  " is left out: " + shortened(error.what(), kLongestShownMiss));
      left_out.push_back({{"kernel", one.kernel}, {"problem", one.problem}, {"why", error.what()}});
    }
  }
  if (missed.empty()) output.result() << misses_ << " lists no miss: nothing to search.\n";
  output.document({{"misses", misses_}, {"searches", std::move(searches)}, {"left_out", std::move(left_out)}});
  return all ? kDone : kNothingFound;
}

int SearchCommand::run(Output& output, std::stop_token stop) {
  warn_of_token(remote_.server, remote_.token_file, output);
  if (history_ && !output.json())
    throw BadInput("--history lists the trials in the document of --json; add it, or take --verbose for the screen");
  if (!remote_.server.empty() && !request_.target.replay.objective.empty())
    throw BadInput("--objective is of results that are searched here; leave it out with --server");
  request_.proposer = take_proposer_command(request_.settings.strategy);
  if (request_.proposer && (!remote_.server.empty() || !range_.over.empty()))
    throw BadInput("--strategy external: runs a program here for single searches; leave out --server and --over");
  request_.target.replay.may_stand_in = true;  // the user sees the banner
  if (until_gain_percent_ > 0) request_.settings.until_gain = until_gain_percent_ / 100;
  request_.settings.policy.timing = read_timing(timing_, range_.over.empty() ? Timing::overlapped : Timing::chained);
  request_.settings.all_timings = !timing_.empty();
  if (!misses_.empty()) return search_missed(output, stop);
  if (remote_.server.empty() || !range_.over.empty()) require_kernel(request_.target);
  if (!range_.over.empty() && (history_ || verbose_ || request_.cold))
    throw BadInput("--history, --verbose and --cold are of a single search; leave them out with --over");
  if (!range_.over.empty()) return search_over(range_, request_, remote_, output, stop);
  const Found found = search_one(request_, output, stop);
  output.document(found.document);
  return found.any ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_search_command() { return std::make_unique<SearchCommand>(); }

}  // namespace moetune
