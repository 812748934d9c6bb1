#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <thread>

#include "base/duration.h"
#include "base/error.h"
#include "base/json_fields.h"
#include "base/regular_file.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/event_text.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/remote_search.h"
#include "cli/text.h"
#include "retune/deadline.h"
#include "retune/host_night.h"
#include "retune/member_process.h"
#include "serve/run/job_request.h"

namespace moetune {
namespace {

class RetuneCommand : public Command {
 public:
  std::string_view name() const override { return "retune"; }
  std::string_view summary() const override {
    return "a night's work: tune what is missing or stale of a list, and never make serving slower";
  }
  std::string_view details() const override {
    return "A workload is stale if its template, space, compiler or driver has changed, if it was measured beside\n"
           "somebody else's work, or if it is older than --max-age. A probe of ten configurations decides whether to\n"
           "keep the winner, to search near it, or to search all; a new winner must win two duels to replace it.\n"
           "A cache or a GPU has one night at a time; after one that was stopped or killed the next goes on.\n"
           "Exit codes: 0 nothing to do, kept, tuned or improved (--exit-code: 4 if tuned or improved), 1 failed in\n"
           "part, 2 bad input, 3 failed.\n"
           "docs/retune.md explains the rest.\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  void read_options();
  int exit_code(const NightResult& result) const;
  int run_remotely(Output& output, std::stop_token stop);
  int run_as_member(std::size_t twin, const Output& output, std::stop_token stop);
  std::vector<std::string> member_arguments(const std::string& device, std::size_t devices, const Output& output) const;

  std::string workloads_, until_, shard_, log_;
  bool tell_improved_ = false;
  RemoteOptions remote_;
  NightRequest request_;
};

void RetuneCommand::declare(OptionTable& table) {
  SearchRequest& search = request_.search;
  table.text("workloads", "FILE", workloads_, "what to tune: a list (docs/workloads.md)");
  table.span("time", request_.time_s, "end the night after that time");
  table.text("until", "HH:MM", until_, "end the night when the local clock shows this");
  table.text("shard", "K/N", shard_, "only part K of N of the list, the same part every night");
  table.span("max-age", request_.plan.max_age_s, "also examine winners that were not examined for so long: 30d");
  table.flag("dry-run", request_.dry_run, "print the plan with reasons and expected times, and change nothing");
  table.flag("exit-code", tell_improved_, "exit with 4 if something was tuned or improved");
  table.text("log", "FILE", log_, "append a JSON line for each event");
  table.whole("budget", search.settings.budget, 1, 1'000'000'000, "trials of a whole search; a patch takes a fifth");
  declare_remote(table, remote_);
  table.text(
      "device", "DEVICES", search.target.device,
      "all or auto (every GPU of the host at once), cuda:0,cuda:1 ..., or replay:FILE; the file may be a folder of "
      "recordings");
  declare_cache(table, search.target.cache);
  table.flag("no-compile", search.no_compile, "recordings only: do not compile what is replayed");
  declare_threads(table, search.threads);
  table.span("quiet-wait", request_.rework.quiet_wait_s,
             "how long to wait for a quiet GPU, for each measurement of a workload; then it is postponed");
}

void RetuneCommand::read_options() {
  if (workloads_.empty()) throw BadInput("which list? --workloads FILE; `moetune workloads` makes one");
  if (request_.time_s > 0 && !until_.empty()) throw BadInput("--time and --until say the same; give one of them");
  request_.list = read_workloads(workloads_);
  if (!until_.empty()) {
    const auto now = static_cast<std::int64_t>(std::time(nullptr));
    request_.time_s = static_cast<double>(as_field("until", [&] { return next_time(until_, now); }) - now);
  }
  if (!shard_.empty()) request_.plan.shard = as_field("shard", [&] { return parse_shard(shard_); });
  request_.plan.budget = request_.search.settings.budget;
}

// Writes a line for each event. A write that fails is reported once, and ends no night.
class NightLogFile {
 public:
  NightLogFile(const std::string& path, const Output& output) : path_(path), output_(output) {
    if (!path_.empty()) as_field("log", [&] { return &file_.emplace(path_); });
  }
  void write(const Document& event) {
    if (!file_ || failed_) return;
    const std::string line = event.dump(-1, ' ', false, Document::error_handler_t::replace);
    if (file_->write(escape_json_controls(line) + "\n")) return;
    failed_ = true;
    output_.warn("The log " + path_ + " cannot be written any more; the night goes on without it.");
  }

 private:
  std::string path_;
  const Output& output_;
  std::optional<AppendedFile> file_;
  bool failed_ = false;
};

void print_plan(const NightPlan& plan, const Output& output) {
  Table table({"value", "expected", "kernel", "problem", "why"}, {0, 1});
  for (const PlanItem& item : plan.items)
    table.add({format("%.3g", item.value), duration_text(item.expected_s), item.point.kernel,
               item.over.empty() ? shown_problem(item.point.kernel, item.point.problem, output) : item.over,
               item.why()});
  if (!plan.items.empty()) output.result() << table.text("", output.columns());
  output.result() << format("%zu stale, %zu as they should be, %zu left out; expected time ", plan.items.size(),
                            plan.fresh.size(), plan.left_out.size())
                  << duration_text(plan.expected_s()) << "\n";
}

// One of the night's workloads, by reworked_document().
void print_reworked(const Document& one, const Output& output) {
  std::string line = text_field(one, "verdict") + "  " + text_field(one, "kernel") + " " +
                     shown_problem(text_field(one, "kernel"), text_field(one, "problem"), output);
  if (one.at("best_us").is_number() && one["best_us"] > 0) line += "  " + time_text(one["best_us"].get<double>());
  const std::string remedy = one.contains("remedy") ? text_field(one, "remedy") + ": " : "";
  output.result() << line << "  " << remedy << text_field(one, "reason") << "  ("
                  << duration_text(one.at("seconds").get<double>()) << ")" << std::endl;
}

// The night's last lines, by night_document().
void print_summary(const Document& night, const Output& output) {
  std::map<std::string, std::size_t> verdicts;
  for (const Document& one : night.at("reworked")) ++verdicts[text_field(one, "verdict")];
  const Document& plan = night.at("plan");
  const std::size_t stale = plan.at("stale").size(), reworked = night["reworked"].size();
  std::string text = format("%zu stale: %zu improved, %zu tuned, %zu kept, %zu postponed, %zu failed", stale,
                            verdicts["improved"], verdicts["tuned"], verdicts["kept"], verdicts["postponed"],
                            verdicts["failed"] + plan.at("left_out").size());
  if (verdicts["stopped"] > 0) text += format(", %zu stopped", verdicts["stopped"]);
  if (reworked < stale) text += format(", %zu not reached", stale - reworked);
  output.result() << text << (night.at("out_of_time") == true ? "; the time was up" : "") << "\n";
  if (const std::string why = text_field(night, "broken"); !why.empty()) output.warn("The night ended early: " + why);
}

void warn_left_out(const Document& night, const Output& output) {
  for (const Document& one : night.at("plan").at("left_out"))
    output.warn(text_field(one, "kernel") + " " + text_field(one, "problem") +
                " is left out: " + text_field(one, "why"));
}

int RetuneCommand::exit_code(const NightResult& result) const {
  const std::size_t wanted = result.plan.items.size() + result.plan.left_out.size() + result.plan.fresh.size();
  if (!result.broken.empty() || (wanted > 0 && result.failures() == wanted)) return kBrokenEnvironment;
  if (result.failures() > 0) return kNothingFound;
  const bool improved = result.count(ReworkVerdict::improved) + result.count(ReworkVerdict::tuned) > 0;
  return tell_improved_ && improved ? kChanged : kDone;
}

int RetuneCommand::run_remotely(Output& output, std::stop_token stop) {
  if (!log_.empty() || request_.dry_run || tell_improved_)
    throw BadInput("--server takes no --log, --dry-run and --exit-code: the service keeps the events");
  warn_of_token(remote_.server, remote_.token_file, output);
  Progress progress(output, {});
  const SearchRequest& search = request_.search;
  const FinishedJob job = remote_job(remote_, "retune", night_fields(request_), search.target.cache, search.threads,
                                     {.events = {.listener = progress.listener()}, .stop = stop});
  progress.finished();
  if (job.result.is_null()) {
    output.note("Interrupted; the job is withdrawn.");
    return kNothingFound;
  }
  try {
    for (const Document& one : job.result.at("reworked")) print_reworked(one, output);
    warn_left_out(job.result, output);
    print_summary(job.result, output);
  } catch (const Document::exception&) {
    throw BrokenEnvironment("the result of job " + std::to_string(job.id) + " of the service cannot be read");
  }
  output.document(job.result);
  return job.exit_code;
}

// For the process of one device; the cores are shared.
std::vector<std::string> RetuneCommand::member_arguments(const std::string& device, std::size_t devices,
                                                         const Output& output) const {
  const SearchRequest& search = request_.search;
  const std::uint64_t cores = std::thread::hardware_concurrency();
  const std::uint64_t threads = search.threads > 0 ? search.threads : std::max<std::uint64_t>(1, cores / devices);
  std::vector<std::string> arguments = {"retune",       "--no-config",
                                        "--workloads",  workloads_,
                                        "--device",     device,
                                        "--cache",      search.target.cache.file().string(),
                                        "--budget",     std::to_string(search.settings.budget),
                                        "--threads",    std::to_string(threads),
                                        "--quiet-wait", std::to_string(request_.rework.quiet_wait_s)};
  const auto add = [&](bool is_given, std::initializer_list<std::string> words) {
    if (is_given) arguments.insert(arguments.end(), words);
  };
  add(request_.time_s > 0, {"--time", format("%.3fs", request_.time_s)});
  add(request_.plan.max_age_s > 0, {"--max-age", format("%.3fs", request_.plan.max_age_s)});
  add(!shard_.empty(), {"--shard", shard_});
  add(search.no_compile, {"--no-compile"});
  add(output.is_quiet(), {"--quiet"});
  return arguments;
}

// One device of a night: its parent prints, and writes the log.
int RetuneCommand::run_as_member(std::size_t twin, const Output& output, std::stop_token stop) {
  NightParent parent(stop);
  request_.member = {.twin = twin, .may_begin = [&] { return parent.may_begin(); }};
  try {
    run_night(request_, {.events = {.listener = note_listener(output)}, .stop = parent.stop()},
              [&](const Document& event) { parent.send(event); });
    return kDone;
  } catch (const std::exception& error) {
    parent.send({{"event", "broken"}, {"why", error.what()}});
    return kBrokenEnvironment;
  }
}

int RetuneCommand::run(Output& output, std::stop_token stop) {
  read_options();
  if (!remote_.server.empty()) return run_remotely(output, stop);
  if (const auto twin = NightParent::twin_of_this_process()) return run_as_member(*twin, output, stop);
  NightLogFile log(log_, output);
  Progress progress(output, {});
  const NightListener listener = [&](const Document& event) {
    if (event.contains("message")) output.warn(event["message"].get<std::string>());
    log.write(event);
    if (event["event"] != "ended") return;
    progress.finished();
    print_reworked(event, output);
  };
  const JobContext context{.events = {.listener = progress.listener()}, .stop = stop};
  const std::vector<NightDevice> devices = night_devices(request_.search.target.device);
  NightResult result;
  if (devices.size() > 1) {
    const MemberArguments arguments = [&](const std::string& device) {
      return member_arguments(device, devices.size(), output);
    };
    result = run_host_night(request_, devices, context, listener, arguments);
  } else {
    request_.search.target.device = devices.front().name;
    request_.gpu = devices.front().gpu;
    result = run_night(request_, context, listener);
  }
  progress.finished();
  const Document document = night_document(result);
  warn_left_out(document, output);
  if (request_.dry_run) {
    print_plan(result.plan, output);
  } else {
    print_summary(document, output);
  }
  output.document(document);
  return exit_code(result);
}

}  // namespace

std::unique_ptr<Command> make_retune_command() { return std::make_unique<RetuneCommand>(); }

}  // namespace moetune
