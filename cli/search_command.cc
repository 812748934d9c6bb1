#include <limits>
#include <utility>

#include "base/error.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/document.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/text.h"
#include "tuner/history.h"

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
  WorkloadOptions workload_;
  std::string device_ = "auto";
  CacheChoice cache_;
  CompileOptions compile_;
  std::string strategy_ = "auto";
  std::uint64_t budget_ = 200, seed_ = 1, finalists_ = 5, in_flight_ = 32;
  double time_s_ = 0, trial_time_s_ = 0, until_gain_percent_ = 0;
  bool fresh_ = false, cold_ = false, history_ = false, verbose_ = false;
};

std::string_view SearchCommand::details() const {
  return "Trials are kept in the cache as they land: after Ctrl-C, or any other end, the same command "
         "continues\n"
         "where it stopped. --device auto takes the first GPU, else a shipped recording. A recording also "
         "serves\n"
         "as replay:FILE, Kernel Tuner's cache files included; the kernel may then be left out, nothing is\n"
         "compiled for a kernel that is not moetune's, and its trials are kept under the file's own "
         "digest.\n";
}

std::string strategy_names() {
  std::string names;
  for (const StrategyInfo& info : strategies()) names += (names.empty() ? "" : ", ") + info.name;
  return names;
}

void SearchCommand::declare(OptionTable& table) {
  declare_workload(table, workload_, false);
  table.whole("budget", budget_, 1, 1'000'000'000, "trials; what is compiled and not measured costs none");
  table.seconds("time", time_s_, "start no trial after this many seconds");
  table.positive("until-converged", "PERCENT", "percentage", until_gain_percent_,
                 "end where 60 more trials should gain less than this");
  table.text("strategy", "NAME", strategy_, "how to search: " + strategy_names());
  table.whole("seed", seed_, 0, std::numeric_limits<std::uint64_t>::max(),
              "one seed, one trajectory on a recording; on a GPU times differ anyhow");
  declare_device(table, device_);
  declare_cache(table, cache_);
  table.flag("fresh", fresh_, "forget this workload's stored trials");
  table.flag("cold", cold_, "take no hints from the cache's other workloads");
  table.flag("no-compile", compile_.none, "recordings only: do not compile what is replayed");
  table.whole("threads", compile_.threads, 0, 1024, "compiler threads; 0 takes all cores");
  table.whole("finalists", finalists_, 1, 100, "configurations that meet again at the end");
  table.whole("in-flight", in_flight_, 1, 4096, "configurations compiled ahead of measuring");
  table.seconds(
      "trial-time", trial_time_s_,
      "time limit of one trial on the GPU (10); a worker that has not answered 2 s later is killed");
  table.flag("history", history_, "with --json: every trial, in order");
  table.flag("verbose", verbose_, "a line a trial instead of the progress line");
}

void check_strategy(const std::string& strategy) {
  std::vector<std::string> names;
  for (const StrategyInfo& info : strategies()) {
    if (info.name == strategy) return;
    names.push_back(info.name);
  }
  throw BadInput(unknown_name("strategy", strategy, names));
}

Document best_document(const Session& session, const Trial& best) {
  const Measurement& measured = best.result.measurement;
  const double time = measured.median_us;
  const std::optional<double> floor = session.floor_us();
  Document document = {{"config", best.config.text()},
                       {"parameters", assignment_document(best.config)},
                       {"time_us", number_or_null(time)},
                       {"interval_us", {number_or_null(measured.low_us), number_or_null(measured.high_us)}},
                       {"tb_s", number_or_null(session.bytes() / time * 1e-6)},
                       {"roofline", floor ? number_or_null(*floor / time) : nullptr}};
  if (session.recording() != nullptr) {
    document["regret"] = number_or_null(time / session.recording()->optimum_us());
  }
  if (measured.sm_clock_mhz > 0) document["sm_clock_mhz"] = measured.sm_clock_mhz;
  if (measured.throttled) document["throttled"] = true;
  return document;
}

Document confidence_document(const Confidence& confidence) {
  if (!confidence.known) return nullptr;
  return {{"within_5_percent", confidence.within_5_percent},
          {"more_trials", kMoreTrials},
          {"expected_gain", confidence.expected_gain},
          {"at_floor", confidence.at_floor}};
}

Document search_document(Session& session, const TuneRequest& request, const TuneResult& result,
                         bool history) {
  Document document = {{"kernel", session.kernel_name()},
                       {"problem", session.problem_text()},
                       {"dimensions", assignment_document(session.problem().dims)},
                       {"device", device_document(session.info())},
                       {"strategy", request.strategy},
                       {"seed", request.seed},
                       {"budget", request.budget},
                       {"legal", session.space().size()},
                       {"trials", counts_document(result.counts)},
                       {"best", nullptr},
                       {"default", nullptr},
                       {"speedup", nullptr}};
  if (result.best) document["best"] = best_document(session, *result.best);
  if (result.baseline) document["default"] = trial_document(*result.baseline);
  if (result.best && result.baseline && has_time(result.baseline->result.outcome)) {
    document["speedup"] = number_or_null(result.baseline->result.measurement.median_us /
                                         result.best->result.measurement.median_us);
  }
  document["confidence"] = confidence_document(result.confidence);
  document["histories"] = request.histories.size();
  document["interrupted"] = result.interrupted;
  document["converged"] = result.converged;
  document["exhausted"] = result.exhausted;
  document["compiled"] = session.compiler() != nullptr;
  document["cache"] =
      session.cache() == nullptr ? Document(nullptr) : Document(session.cache()->path().string());
  document["time"] = time_document(result.time);
  document["wall_s"] = result.time.wall;
  if (history) {
    document["history"] = Document::array();
    for (const Trial& trial : result.trials) document["history"].push_back(trial_document(trial));
  }
  return document;
}

std::string best_line(const Session& session, const Trial& best) {
  const Measurement& measured = best.result.measurement;
  std::string text = time_text(measured.median_us);
  if (measured.high_us > measured.low_us) {
    text += "  [" + time_text(measured.low_us) + ", " + time_text(measured.high_us) + "]";
  }
  if (session.bytes() > 0) text += "  " + rate_text(session.bytes() / measured.median_us * 1e-6);
  if (const auto floor = session.floor_us()) {
    text += "  " + percent_text(*floor / measured.median_us) + " of the roofline";
  }
  if (session.recording() != nullptr) {
    text += format("  %.3f× the recorded optimum", measured.median_us / session.recording()->optimum_us());
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
  if (counts.unmeasured > 0) text += format("; %zu more compiled and passed over", counts.unmeasured);
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
  return percent_text(confidence.within_5_percent) + " that nothing is more than 5% faster" +
         (confidence.at_floor ? ", as the roofline is no further; " : "; ") +
         format("%zu more trials should gain ", kMoreTrials) + percent_text(confidence.expected_gain);
}

void print_result(Session& session, const TuneResult& result, const Output& output) {
  Table table({});
  table.add({"problem", session.problem_text().empty() ? "(not said)" : session.problem_text()});
  table.add({"device", session.info().key.name + (session.recording() ? ", recorded" : "")});
  if (result.best) {
    table.add({"best", best_line(session, *result.best)});
    table.add({"config", result.best->config.text()});
  }
  if (result.baseline) table.add({"default", default_line(*result.baseline, result.best)});
  if (result.confidence.known) table.add({"chance", confidence_line(result.confidence)});
  table.add({"trials", trials_line(result.counts)});
  table.add({"time", time_line(result.time)});
  if (session.cache() != nullptr) table.add({"cache", session.cache()->path().string()});
  output.result() << session.kernel_name() << "\n" << table.text("  ");
}

void print_hints(Session& session, const TuneResult& result, const Output& output) {
  if (result.interrupted) {
    output.note(format("Interrupted after %zu trials; ", result.counts.total()) +
                (session.cache() != nullptr ? "the same command continues from there."
                                            : "with --no-cache they are not kept."));
  } else if (!result.best) {
    output.note("No valid configuration was found; --verbose shows why each trial failed.");
  } else if (session.recording() == nullptr && !session.floor_us()) {
    output.note(
        "The roofline fraction is unknown here: `moetune devices --calibrate` measures this GPU once.");
  }
}

int SearchCommand::run(Output& output, std::stop_token stop) {
  check_strategy(strategy_);
  Session session(choose_device(device_, workload_), cache_, compile_, output);
  TuneRequest request = session.request();
  request.strategy = strategy_;
  request.seed = seed_;
  request.budget = budget_;
  request.time_budget_s = time_s_;
  request.in_flight = in_flight_;
  request.finalists = finalists_;
  request.fresh = fresh_;
  request.until_gain = until_gain_percent_ / 100;
  if (!cold_ && session.cache() != nullptr) {
    const Carrier carrier{session.kernel(), session.space_file(), session.info().limits};
    request.histories = histories_for(*session.cache(), session.key(), session.space(),
                                      session.kernel() == nullptr ? nullptr : &carrier);
  }
  if (trial_time_s_ > 0) request.policy.time_limit_s = trial_time_s_;

  Progress progress(
      output, {.budget = budget_, .time_budget_s = time_s_, .bytes = session.bytes(), .verbose = verbose_});
  const TuneResult result = tune(request, session.tools(&progress), stop);
  progress.finished();
  print_result(session, result, output);
  print_hints(session, result, output);
  output.document(search_document(session, request, result, history_));
  return result.best ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_search_command() { return std::make_unique<SearchCommand>(); }

}  // namespace moetune
