#include "jobs/record_job.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>

#include "base/digest.h"
#include "base/error.h"
#include "base/format.h"
#include "jobs/calibrate_job.h"
#include "jobs/range/plan.h"
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

// The session's problem into a file, unless it is interrupted or contended.
RecordResult record_problem(Session& session, const RecordRequest& request, const Ceilings& ceilings,
                            const std::string& file, const JobContext& context) {
  const LegalSpace space = sampled(session.space(), session.default_config(), request.sample);
  RecordResult result{.legal = space.size(), .ceilings = ceilings};
  result.subject = session.subject();
  TuneRequest tuning = session.request(settings_of(request, result.legal));
  tuning.space = &space;
  result.tune = session.tune(tuning, context.stop);
  if (!result.tune.interrupted && result.tune.contention.contended == 0) {
    context.events.emit(PhaseChanged{Phase::storing});
    write_recording(make_recording(session, space, result.tune.trials, result.ceilings), file);
    result.file = file;
  }
  return result;
}

// Nothing else has that name. The folder is made when there is something to measure.
void check_folder(const std::string& folder) {
  if (folder.empty()) throw BadField("output", "it must name a folder for the recordings");
  std::error_code failure;
  if (std::filesystem::exists(folder, failure) && !std::filesystem::is_directory(folder, failure))
    throw BadField("output", folder + " is no folder; a range has a recording a problem");
}

void make_folder(const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw BadField("output", "cannot make the folder " + folder + ": " + failure.message());
}

// "router_64_1a2b3c4d.json.zst": the free dimensions for people, a digest for the rest.
std::string file_of(const Kernel& kernel, const Problem& problem) {
  std::string name = kernel.name();
  for (const std::int64_t extent : kernel.extents_of(problem)) name += "_" + std::to_string(extent);
  return name + "_" + digest(problem.text()).substr(0, 8) + ".json.zst";
}

// Whether a file is a recording of that problem on that GPU. Throws BadField for one that is something else.
bool is_recorded(const std::filesystem::path& file, const Session& session, const Problem& problem) {
  std::error_code absent;
  if (!std::filesystem::exists(file, absent)) return false;
  try {
    const Recording known = read_recording(file);
    if (known.problem == problem.text() && known.hardware.text() == session.info().key.text()) return true;
  } catch (const BadInput&) {
  }
  throw BadField("output", file.string() + " is there and no recording of " + problem.text() + "; name another folder");
}

}  // namespace

RecordResult record(const RecordRequest& request, const JobContext& context) {
  check_output(request.output);
  const JobTarget& target = request.target;
  Session session(choose_device(target.device, target.workload, {.gpu_job = "record"}),
                  {.cache = target.cache, .threads = request.threads, .purpose = Purpose::recording}, context.events);
  const Ceilings ceilings = known_ceilings(session, request, context);
  RecordResult result = record_problem(session, request, ceilings, request.output, context);
  context.events.emit(Finished{result.tune.interrupted});
  return result;
}

RecordRangeResult record_range(const RecordRangeRequest& request, const JobContext& context,
                               const std::function<void(const RecordResult&)>& ended) {
  const RecordRequest& one = request.one;
  check_folder(one.output);
  Session session(choose_device(one.target.device, one.target.workload, {.gpu_job = "record"}),
                  {.cache = one.target.cache, .threads = one.threads, .purpose = Purpose::recording}, context.events);
  const RangePlan plan(session, problem_of(*session.kernel(), one.target.workload), request.over);
  std::vector<Problem> problems;
  for (const PlannedProblem& cell : plan.cells()) problems.push_back(cell.problem);
  for (const Problem& problem : plan.unseen(request.shapes, one.seed)) problems.push_back(problem);
  make_folder(one.output);  // found out now, not after an hour of measuring
  const Ceilings ceilings = known_ceilings(session, one, context);
  RecordRangeResult result{.left_out = plan.left_out(), .planned = problems.size()};
  for (const Problem& problem : problems) {
    if (context.stop.stop_requested()) result.interrupted = true;
    if (result.interrupted || !result.contended.empty()) break;
    const std::filesystem::path file = std::filesystem::path(one.output) / file_of(*session.kernel(), problem);
    if (is_recorded(file, session, problem)) {
      result.known.push_back(file.string());
      continue;
    }
    try {
      session.move_to(problem);
    } catch (const BadInput& error) {  // no configuration is legal there
      result.left_out.push_back(problem.text() + ": " + error.what());
      continue;
    }
    result.recordings.push_back(record_problem(session, one, ceilings, file.string(), context));
    const RecordResult& recorded = result.recordings.back();
    result.interrupted = recorded.tune.interrupted;
    if (!result.interrupted && recorded.file.empty()) result.contended = recorded.subject.problem;
    if (ended) ended(recorded);
  }
  context.events.emit(Finished{result.interrupted});
  return result;
}

Document record_document(const RecordResult& result) {
  return {{"kernel", result.subject.kernel},
          {"problem", result.subject.problem},
          {"device", device_document(result.subject.device)},
          {"legal", result.legal},
          {"trials", counts_document(result.tune.counts)},
          {"file", result.file.empty() ? Document(nullptr) : Document(result.file)},
          {"read_tb_s", number_or_null(result.ceilings.read_tb_s)},
          {"launch_us", number_or_null(result.ceilings.launch_us)},
          {"contention", contention_document(result.tune.contention)},
          {"interrupted", result.tune.interrupted},
          {"wall_s", result.tune.time.wall}};
}

Document record_range_document(const RecordRangeResult& result) {
  Document recordings = Document::array();
  for (const RecordResult& one : result.recordings) recordings.push_back(record_document(one));
  return {{"planned", result.planned},
          {"recordings", std::move(recordings)},
          {"known", result.known},
          {"left_out", result.left_out},
          {"contended", result.contended.empty() ? Document(nullptr) : Document(result.contended)},
          {"interrupted", result.interrupted}};
}

}  // namespace moetune
