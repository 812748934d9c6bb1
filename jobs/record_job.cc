#include "jobs/record_job.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "base/digest.h"
#include "base/error.h"
#include "base/time_stamp.h"
#include "jobs/calibrate_job.h"
#include "jobs/session/session.h"
#include "replay/recording.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

// Loose, because a recording should know the slow configurations too; without it a few pathological ones take
// most of the time.
constexpr double kDropFactor = 5;
// As many as are stored, and a few more where they disagree. A space has tens of thousands of configurations.
constexpr int kMinSamples = static_cast<int>(kStoredSamples), kMaxSamples = kMinSamples + 4;

// Found out now, not after an hour of measuring.
void check_output(const std::string& file) {
  const auto refuse = [](const std::string& reason) { throw BadField("output", reason); };
  if (file.empty()) refuse("it must name the recording to write");
  std::error_code unreachable;
  const std::filesystem::file_status status = std::filesystem::symlink_status(file, unreachable);
  if (std::filesystem::exists(status)) refuse(file + " exists already; remove it or name another file");
  if (status.type() == std::filesystem::file_type::none) refuse("cannot write " + file + ": " + unreachable.message());
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (!std::filesystem::is_directory(folder, unreachable)) refuse("there is no folder " + folder.string());
}

std::string today() {
  return utc_text(std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now())).substr(0, 10);
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
Ceilings known_ceilings(const Session& session, const RecordRequest& request, const JobContext& context) {
  if (session.ceilings().read_tb_s) return session.ceilings();
  try {
    return measure_ceilings(session.info(), request.target.cache, context, request.quiet_wait_s);
  } catch (const BrokenEnvironment& error) {
    const std::string text = std::string("The recording goes without ceilings: ") + error.what();
    context.events.emit(Warning{WarningKind::no_ceilings, text});
    return {};
  }
}

TuneSettings settings_of(const RecordRequest& request, std::size_t legal) {
  TuneSettings settings;
  settings.strategy = "exhaustive";
  settings.seed = request.seed;
  settings.budget = legal;
  settings.in_flight = request.in_flight;
  settings.drop_factor = kDropFactor;
  settings.policy.min_samples = kMinSamples;
  settings.policy.max_samples = kMaxSamples;
  settings.quiet_wait_s = request.quiet_wait_s;
  settings.fresh = request.fresh;
  return settings;
}

// The rows of a space whose cubins come first in an order by digest, which is the same for every problem, until they
// are as many as `sample`; the default's cubin before all.
LegalSpace sampled(const LegalSpace& space, const std::optional<Config>& first, std::size_t sample) {
  if (sample == 0 || space.size() <= sample) return space;
  std::map<std::pair<bool, std::string>, std::vector<ConfigId>> cubins;
  const std::string wanted = first ? split_config(*first, space.parameters()).compiled.text() : std::string();
  for (ConfigId id = 0; id < space.size(); ++id) {
    const std::string cubin = split_config(space.config(id), space.parameters()).compiled.text();
    cubins[{cubin != wanted, digest(cubin)}].push_back(id);
  }
  std::vector<ConfigId> kept;
  for (const auto& [order, ids] : cubins) {
    if (!kept.empty() && kept.size() + ids.size() > sample) break;
    kept.insert(kept.end(), ids.begin(), ids.end());
  }
  std::sort(kept.begin(), kept.end());
  std::vector<Position> rows;
  for (const ConfigId id : kept) {
    const std::span<const Position> point = space.point(id);
    rows.insert(rows.end(), point.begin(), point.end());
  }
  return LegalSpace(space.parameters(), std::move(rows));
}

Recording make_recording(const Session& session, const LegalSpace& space, const std::vector<Trial>& trials,
                         const Ceilings& ceilings) {
  // Ids follow lexicographic order, and so must a LegalSpace's rows.
  std::vector<const Trial*> ordered;
  for (const Trial& trial : trials) ordered.push_back(&trial);
  std::sort(ordered.begin(), ordered.end(), [](const Trial* a, const Trial* b) { return a->id < b->id; });

  std::vector<Position> rows;
  std::vector<RecordedTrial> results;
  for (const Trial* trial : ordered) {
    const std::span<const Position> point = space.point(trial->id);
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
          .space = LegalSpace(space.parameters(), std::move(rows)),
          .trials = std::move(results)};
}

}  // namespace

RecordResult record(const RecordRequest& request, const JobContext& context) {
  check_output(request.output);
  const JobTarget& target = request.target;
  Session session(choose_device(target.device, target.workload, {.gpu_job = "record"}),
                  {.cache = target.cache, .threads = request.threads, .purpose = Purpose::recording}, context.events);
  const Ceilings ceilings = known_ceilings(session, request, context);
  const LegalSpace space = sampled(session.space(), session.default_config(), request.sample);
  RecordResult result{.subject = session.subject(), .legal = space.size(), .ceilings = ceilings};
  TuneRequest tuning = session.request(settings_of(request, result.legal));
  tuning.space = &space;
  result.tune = session.tune(tuning, context.stop);
  if (!result.tune.interrupted && result.tune.contention.contended == 0) {
    context.events.emit(PhaseChanged{Phase::storing});
    write_recording(make_recording(session, space, result.tune.trials, ceilings), request.output);
    result.file = request.output;
  }
  context.events.emit(Finished{result.tune.interrupted});
  return result;
}

Document record_document(const RecordResult& result) {
  return {{"kernel", result.subject.kernel},
          {"problem", result.subject.problem},
          {"device", device_document(result.subject.device)},
          {"legal", result.legal},
          {"trials", counts_document(result.tune.counts)},
          {"file", text_or_null(result.file)},
          {"read_tb_s", number_or_null(result.ceilings.read_tb_s)},
          {"launch_us", number_or_null(result.ceilings.launch_us)},
          {"contention", contention_document(result.tune.contention)},
          {"interrupted", result.tune.interrupted},
          {"wall_s", result.tune.time.wall}};
}

}  // namespace moetune
