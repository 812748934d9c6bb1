#include <limits>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "jobs/record_job.h"

namespace moetune {
namespace {

class RecordCommand : public Command {
 public:
  std::string_view name() const override { return "record"; }
  std::string_view summary() const override { return "measure every legal configuration on a GPU into a file"; }
  std::string_view details() const override {
    return "The file serves as --device replay:FILE if there is no GPU. Failures are recorded too. Trials are kept\n"
           "in the cache as they land, so an interrupted recording continues where it stopped; trials of searches are\n"
           "never taken over, for a search drops slow ones sooner. With --over a whole range of a family is recorded,\n"
           "a file a shape, into a folder that `search --over` replays; --sample keeps that short.\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  int record_over(Output& output, std::stop_token stop) const;

  RecordRequest request_;
  std::string over_;
  std::uint64_t shapes_ = RecordRangeRequest{}.shapes;
  bool verbose_ = false;
};

void RecordCommand::declare(OptionTable& table) {
  declare_workload(table, request_.target.workload, true);
  table.text("output", "FILE", request_.output, "the recording to write; with --over a folder for them");
  table.text("over", "RANGES", over_, "record a grid over batch=1..256,context=512..128k as search --over has it");
  table.whole("shapes", shapes_, 0, 1000, "with --over: shapes beside the grid, to check a table on");
  table.whole("sample", request_.sample, 0, 1'000'000'000,
              "about so many configurations, of the same cubins at every shape (0: all)");
  declare_gpu(table, request_.target.device);
  declare_cache(table, request_.target.cache);
  declare_threads(table, request_.threads);
  table.whole("in-flight", request_.in_flight, 1, 4096, "configurations compiled ahead of measuring");
  table.span("quiet-wait", request_.quiet_wait_s, kQuietWaitDoc);
  table.whole("seed", request_.seed, 0, std::numeric_limits<std::uint64_t>::max(), "of the inputs");
  table.flag("fresh", request_.fresh, "forget what an interrupted recording stored");
  table.flag("verbose", verbose_, "a line a trial instead of the progress line");
}

int RecordCommand::record_over(Output& output, std::stop_token stop) const {
  Progress progress(output, {.verbose = verbose_});
  const auto ended = [&](const RecordResult& one) {
    progress.finished();
    if (!one.file.empty())
      output.result() << one.subject.problem << ": " << count_text(static_cast<double>(one.tune.trials.size()))
                      << " configurations, " << one.tune.counts[Outcome::ok] << " ok, in " << one.file << std::endl;
  };
  const RecordRangeRequest request{.one = request_, .over = over_, .shapes = shapes_};
  const RecordRangeResult result =
      record_range(request, {.events = {.listener = progress.listener()}, .stop = stop}, ended);
  progress.finished();
  if (!result.known.empty())
    output.note("There already: " + counted_text(static_cast<std::int64_t>(result.known.size()), "recording") + ".");
  for (const std::string& problem : result.left_out) output.warn(problem + " is left out.");
  if (result.interrupted) output.note("Interrupted; the same command continues from there.");
  if (!result.contended.empty())
    output.warn(result.contended +
                " was measured while somebody else used the GPU and is not written, nor what "
                "follows; the same command continues from there.");
  output.document(record_range_document(result));
  return result.interrupted || (result.contended.empty() && !result.recordings.empty()) ||
                 (result.contended.empty() && !result.known.empty())
             ? kDone
             : kNothingFound;
}

int RecordCommand::run(Output& output, std::stop_token stop) {
  if (request_.output.empty()) throw BadInput("--output FILE is missing: the recording to write");
  if (!over_.empty()) return record_over(output, stop);
  Progress progress(output, {.verbose = verbose_});
  const RecordResult result = record(request_, {.events = {.listener = progress.listener()}, .stop = stop});
  progress.finished();
  const std::size_t measured = result.tune.trials.size();
  if (result.tune.interrupted) {
    output.note(format("Interrupted after %zu of %zu configurations; the same command continues from there.", measured,
                       result.legal));
  } else if (result.file.empty()) {
    output.warn(
        format("Nothing is written: %zu of %zu configurations were measured while somebody else used the GPU. The "
               "same command measures these again.",
               result.tune.contention.contended, result.legal));
  } else {
    output.result() << count_text(static_cast<double>(measured)) << " configurations, "
                    << result.tune.counts[Outcome::ok] << " ok, in " << result.file << "\n";
  }
  output.document(record_document(result));
  const bool recorded = result.tune.best && (result.tune.interrupted || !result.file.empty());
  return recorded ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_record_command() { return std::make_unique<RecordCommand>(); }

}  // namespace moetune
