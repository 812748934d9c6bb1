#include <algorithm>
#include <ctime>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "cli/calibration.h"
#include "cli/command.h"
#include "cli/document.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/text.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

// Loose, because a recording should know the slow configurations too; without it a few pathological ones take
// most of the time.
constexpr double kDropFactor = 5;
// As many as are stored, and a few more where they disagree. A space has tens of thousands of configurations.
constexpr int kMinSamples = static_cast<int>(kStoredSamples), kMaxSamples = kMinSamples + 4;

class RecordCommand : public Command {
 public:
  std::string_view name() const override { return "record"; }
  std::string_view summary() const override {
    return "measure every legal configuration on a GPU into a file";
  }
  std::string_view details() const override {
    return "The file serves as --device replay:FILE where there is no GPU. Failures are recorded too. Trials "
           "are kept\n"
           "in the cache as they land, so an interrupted recording continues where it stopped; trials of "
           "searches are\n"
           "never taken over, for a search drops slow ones sooner.\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  void check_output() const;

  WorkloadOptions workload_;
  std::string device_ = "auto", file_;
  CacheChoice cache_;
  CompileOptions compile_;
  std::uint64_t seed_ = 1, in_flight_ = 256;
  bool fresh_ = false, verbose_ = false;
};

void RecordCommand::declare(OptionTable& table) {
  declare_workload(table, workload_, true);
  table.text("output", "FILE", file_, "the recording to write");
  declare_gpu(table, device_);
  declare_cache(table, cache_);
  table.whole("threads", compile_.threads, 0, 1024, "compiler threads; 0 takes all cores");
  table.whole("in-flight", in_flight_, 1, 4096, "configurations compiled ahead of measuring");
  table.whole("seed", seed_, 0, std::numeric_limits<std::uint64_t>::max(), "of the inputs");
  table.flag("fresh", fresh_, "forget what an interrupted recording stored");
  table.flag("verbose", verbose_, "a line a trial instead of the progress line");
}

// Found out now, not after an hour of measuring.
void RecordCommand::check_output() const {
  if (file_.empty()) throw BadInput("where to? --output FILE names the recording to write");
  std::error_code unreachable;
  const std::filesystem::file_status status = std::filesystem::symlink_status(file_, unreachable);
  if (std::filesystem::exists(status))
    throw BadInput(file_ + " exists already; remove it or name another file");
  if (status.type() == std::filesystem::file_type::none)
    throw BadInput("cannot write " + file_ + ": " + unreachable.message());
  const std::filesystem::path folder = std::filesystem::absolute(file_).parent_path();
  if (!std::filesystem::is_directory(folder, unreachable))
    throw BadInput("there is no folder " + folder.string());
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  return format("%04d-%02d-%02d", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

RecordedTrial recorded(const TrialResult& result) {
  RecordedTrial trial{.outcome = result.outcome, .message = result.message};
  if (!has_time(result.outcome)) return trial;
  trial.time_us = static_cast<float>(result.measurement.median_us);
  const std::vector<double>& samples = result.measurement.samples_us;
  for (std::size_t i = 0; i < std::min(samples.size(), kStoredSamples); ++i) {
    trial.samples_us.push_back(static_cast<float>(samples[i]));
  }
  return trial;
}

// A GPU that was never calibrated is calibrated now: a replay of the recording has nothing else to learn its
// ceiling from.
Ceilings known_ceilings(const Session& session, const CacheChoice& cache, const Output& output,
                        std::stop_token stop) {
  if (session.floor_us()) return session.ceilings();
  output.note("Measuring the ceilings of " + session.info().key.name + " first, for the recording.");
  try {
    return calibrate(session.info(), cache, output, stop);
  } catch (const BrokenEnvironment& error) {
    output.note(std::string("The recording goes without ceilings: ") + error.what());
    return {};
  }
}

Recording make_recording(const Session& session, const std::vector<Trial>& trials, const Ceilings& ceilings) {
  // Ids follow lexicographic order, and so must a LegalSpace's rows.
  std::vector<const Trial*> ordered;
  for (const Trial& trial : trials) ordered.push_back(&trial);
  std::sort(ordered.begin(), ordered.end(), [](const Trial* a, const Trial* b) { return a->id < b->id; });

  std::vector<Position> rows;
  std::vector<RecordedTrial> results;
  for (const Trial* trial : ordered) {
    const std::span<const Position> point = session.space().point(trial->id);
    rows.insert(rows.end(), point.begin(), point.end());
    results.push_back(recorded(trial->result));
  }
  return {.hardware = session.info().key,
          .limits = session.info().limits,
          .kernel = session.kernel_name(),
          .problem = session.problem().text(),
          .source_digest = session.key().source_digest.substr(kRecordingMark.size()),
          .toolchain = session.key().toolchain,
          .recorded_at = today(),
          .read_tb_s = ceilings.read_tb_s.value_or(0),
          .launch_us = ceilings.launch_us.value_or(0),
          .digest = "",
          .space = LegalSpace(session.space().parameters(), std::move(rows)),
          .trials = std::move(results)};
}

int RecordCommand::run(Output& output, std::stop_token stop) {
  check_output();
  Session session(choose_gpu(device_, workload_, name()), cache_, compile_, output,
                  Session::Purpose::recording);
  const Ceilings ceilings = known_ceilings(session, cache_, output, stop);
  TuneRequest request = session.request();
  request.strategy = "exhaustive";
  request.seed = seed_;
  request.budget = session.space().size();
  request.in_flight = in_flight_;
  request.drop_factor = kDropFactor;
  request.policy.min_samples = kMinSamples;
  request.policy.max_samples = kMaxSamples;
  request.fresh = fresh_;

  Progress progress(output, {.budget = request.budget, .bytes = session.bytes(), .verbose = verbose_});
  const TuneResult result = tune(request, session.tools(&progress), stop);
  progress.finished();
  Document document = {{"kernel", session.kernel_name()},
                       {"problem", session.problem().text()},
                       {"device", device_document(session.info())},
                       {"legal", session.space().size()},
                       {"trials", counts_document(result.counts)},
                       {"file", nullptr},
                       {"read_tb_s", number_or_null(ceilings.read_tb_s)},
                       {"launch_us", number_or_null(ceilings.launch_us)},
                       {"interrupted", result.interrupted},
                       {"wall_s", result.time.wall}};
  if (result.interrupted) {
    output.note(format("Interrupted after %zu of %zu configurations; the same command continues from there.",
                       result.trials.size(), session.space().size()));
  } else {
    write_recording(make_recording(session, result.trials, ceilings), file_);
    document["file"] = file_;
    output.result() << count_text(static_cast<double>(result.trials.size())) << " configurations, "
                    << result.counts[Outcome::ok] << " ok, in " << file_ << "\n";
  }
  output.document(document);
  return result.best ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_record_command() { return std::make_unique<RecordCommand>(); }

}  // namespace moetune
