#include <limits>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "cli/tuned_text.h"
#include "workloads/tune_list.h"

namespace moetune {
namespace {

class TuneCommand : public Command {
 public:
  std::string_view name() const override { return "tune"; }
  std::string_view summary() const override { return "tune a whole list of workloads, heaviest first"; }
  std::string_view details() const override {
    return "The list is a workloads.json (docs/workloads.md); `moetune workloads` makes one. A range is tuned\n"
           "into one table (docs/ranges.md), in its share by weight of the time. A problem with a sound result of\n"
           "today's templates and compiler is left alone, so that the same command goes on where it was stopped;\n"
           "a range goes on as long as its share lasts.\n"
           "Exit code 1 if a workload was left out or found nothing.\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  std::string workloads_, timing_;
  TuneListRequest request_;
  std::uint64_t shapes_ = TuneListRequest{}.certificate_shapes, variants_ = TuneListRequest{}.variants;
  double regret_percent_ = 100 * TuneListRequest{}.regret;
};

void TuneCommand::declare(OptionTable& table) {
  table.text("workloads", "FILE", workloads_, "the list to tune");
  table.span("time", request_.time_s, "end after that time; what was not reached is left for the next run");
  table.whole("budget", request_.search.settings.budget, 1, 1'000'000'000,
              "trials of each shape, and of the first of a range");
  declare_timing(table, timing_, "ranges chained, shapes overlapped");
  table.percent("regret", regret_percent_, "how much slower than its best a cell of a range may be served");
  table.whole("variants", variants_, 1, 64, "cubins of a range at most");
  table.whole("shapes", shapes_, 0, 1000, "unseen shapes that the table of a range is checked on");
  table.whole("seed", request_.search.settings.seed, 0, std::numeric_limits<std::uint64_t>::max(),
              "of each search, and of the unseen shapes");
  declare_device(table, request_.search.target.device);
  declare_cache(table, request_.search.target.cache);
  table.flag("no-compile", request_.search.no_compile, "recordings only: do not compile what is replayed");
  declare_threads(table, request_.search.threads);
  table.span("quiet-wait", request_.search.settings.quiet_wait_s, kQuietWaitDoc);
}

int TuneCommand::run(Output& output, std::stop_token stop) {
  if (workloads_.empty()) throw BadInput("which list? --workloads FILE; `moetune workloads` makes one");
  request_.list = read_workloads(workloads_);
  request_.search.settings.policy.timing = read_timing(timing_, Timing::overlapped);
  request_.search.settings.all_timings = !timing_.empty();
  request_.range_timing = read_timing(timing_, Timing::chained);
  request_.certificate_shapes = shapes_;
  request_.variants = variants_;
  request_.regret = regret_percent_ / 100;
  Progress progress(output, {});
  const PointListener ended = [&](const TunedPoint& tuned) {
    progress.finished();
    output.result() << tuned_text(tuned, output) << std::endl;
  };
  const RangeListener range_ended = [&](const TunedRange& tuned) {
    progress.finished();
    output.result() << tuned_text(tuned) << std::endl;
  };
  const TuneListResult result =
      tune_list(request_, {.events = {.listener = progress.listener()}, .stop = stop}, ended, range_ended);
  progress.finished();
  const std::size_t left = result.count(TunedState::not_reached);
  output.result() << counted_text(static_cast<std::int64_t>(result.points.size()), "shape") << ", "
                  << counted_text(static_cast<std::int64_t>(result.ranges.size()), "range")
                  << format(": %zu tuned, %zu tuned before, %zu left out, %zu without a valid configuration",
                            result.count(TunedState::tuned), result.count(TunedState::already),
                            result.count(TunedState::left_out), result.count(TunedState::nothing_valid))
                  << (left > 0 ? format(", %zu not reached: the same command goes on", left) : "") << "\n";
  Document document = {{"workloads", workloads_}};
  document.update(tune_list_document(result));
  output.document(document);
  const bool failed = result.count(TunedState::left_out) + result.count(TunedState::nothing_valid) > 0;
  return failed ? kNothingFound : kDone;
}

}  // namespace

std::unique_ptr<Command> make_tune_command() { return std::make_unique<TuneCommand>(); }

}  // namespace moetune
