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
           "never taken over, for a search drops slow ones sooner. A folder of recordings of one family is what\n"
           "`search --over` replays; --sample keeps them short.\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  RecordRequest request_;
  bool verbose_ = false;
};

void RecordCommand::declare(OptionTable& table) {
  declare_workload(table, request_.target.workload, true);
  table.text("output", "FILE", request_.output, "the recording to write");
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

int RecordCommand::run(Output& output, std::stop_token stop) {
  if (request_.output.empty()) throw BadInput("--output FILE is missing: the recording to write");
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
