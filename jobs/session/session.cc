#include "jobs/session/session.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <set>
#include <thread>

#include "base/as_field.h"
#include "base/environment.h"
#include "base/error.h"
#include "jobs/session/build_store.h"
#include "jobs/session/kernel_files.h"
#include "jobs/session/stored_space.h"
#include "kernels/kernel_space.h"
#include "tuner/compile/launchable.h"
#include "tuner/plausibility.h"
#include "tuner/trial_store.h"

namespace moetune {
namespace {

bool same_parameters(const std::vector<Parameter>& left, const std::vector<Parameter>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const Parameter& a, const Parameter& b) { return a.name == b.name; });
}

// Whether the known domains have every value that a recorded configuration has.
bool within_domains(const LegalSpace& recorded, const std::vector<Parameter>& known) {
  const std::vector<Parameter>& parameters = recorded.parameters();
  if (!same_parameters(parameters, known)) return false;
  for (std::size_t p = 0; p < known.size(); ++p) {
    std::set<Position> used;
    for (ConfigId id = 0; id < recorded.size(); ++id) used.insert(recorded.point(id)[p]);
    const auto is_known = [&](Position position) {
      const std::string text = parameters[p].values[position].text();
      return std::ranges::any_of(known[p].values, [&](const Value& value) { return value.text() == text; });
    };
    if (!std::ranges::all_of(used, is_known)) return false;
  }
  return true;
}

unsigned thread_count(const SessionOptions& options) {
  if (options.threads > 0) return static_cast<unsigned>(options.threads);
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

Session::Session(DeviceChoice choice, const SessionOptions& options, Events events)
    : choice_(std::move(choice)),
      events_(std::move(events)),
      stop_(options.stop),
      purpose_(options.purpose),
      timing_(options.timing) {
  open_space();
  const std::optional<Objective> objective = recording() != nullptr ? recording()->objective : std::nullopt;
  const bool holds_times = !objective || objective->is_time();
  if (holds_times) cache_ = open_or_create_cache(options.cache);
  const std::string recorded_at = recording() != nullptr ? recording()->recorded_at : "";
  const std::string text = problem_text();
  events_.emit(DeviceChosen{kernel_name(), text, info(), recorded_at, choice_.why_no_gpu});
  if (cache_ != nullptr && !cache_->warning().empty()) warn(WarningKind::cache, cache_->warning());
  if (!holds_times && !options.cache.none)
    warn(WarningKind::cache, "The cache keeps times: what is found by " + objective->name + " is not kept.");
  if (recording() != nullptr && timing_ != Timing::overlapped) {
    warn(WarningKind::recorded_timing, "A recording holds times of overlapping launches: they stand for " +
                                           std::string(timing_name(timing_)) + " ones.");
    timing_ = Timing::overlapped;
  }
  open_compiler(options);
  make_key();
  if (recording() != nullptr) keep_recorded_ceilings();
}

void Session::warn(WarningKind kind, const std::string& text) const { events_.emit(Warning{kind, text}); }

void Session::make_key() {
  key_.kernel = kernel_name();
  key_.problem = problem_text();
  key_.hardware = info().key;
  key_.timing = timing_;
  if (kernel() != nullptr) {
    if (source_digest_.empty()) source_digest_ = kernel_source_digest(kernel_name());
    key_.source_digest = source_digest_;
  }
  // A recording of an earlier space is of the templates of its time.
  if (kernel() != nullptr && recording() != nullptr && !within_domains(recording()->space, space_file_->parameters())) {
    key_.source_digest = recording()->source_digest;
  }
  if (purpose_ == Purpose::recording) key_.source_digest.insert(0, kRecordingMark);
  if (recording() != nullptr && compiler_ == nullptr) key_.toolchain = recording()->toolchain;
  if (compiler_ != nullptr) key_.toolchain = compiler_->toolchain();
}

// So that what reads the cache alone (a stored winner, a report) has the roofline of a replay too.
void Session::keep_recorded_ceilings() {
  if (cache_ == nullptr) return;
  const Ceilings stored = stored_ceilings(cache_.get(), info().key), recorded = ceilings();
  if (stored.read_tb_s == recorded.read_tb_s && stored.launch_us == recorded.launch_us) return;
  store_ceilings(*cache_, info().key, recorded);
}

void Session::open_space() {
  if (kernel() == nullptr) return;
  if (!space_file_) space_file_ = load_space(kernel_name());
  default_config_ = space_file_->default_config(environment());
  if (recording() == nullptr) legal_ = space_file_->enumerate(environment());
  if (space().empty()) {
    throw BadInput(
        "no configuration of " + kernel_name() + " is legal for " + problem().text() + " on " + info().key.name +
        (recording() == nullptr ? ": " + space_file_->why_empty(environment()) : ": the recording holds none"));
  }
  // A recording may predate a default.
  if (default_config_ && !space().find(*default_config_)) default_config_.reset();
}

std::vector<Problem> Session::recorded_problems() const {
  std::vector<Problem> problems;
  if (kernel() == nullptr) return problems;
  for (const auto& one : choice_.recordings) problems.push_back(kernel()->parse(one->problem));
  return problems;
}

void Session::move_to(const Problem& problem) {
  if (recording() != nullptr) {
    const std::vector<Problem> problems = recorded_problems();
    const auto found = std::find(problems.begin(), problems.end(), problem);
    device().open(*kernel(), problem, 0);  // says what is recorded if this is not
    choice_.recording = choice_.recordings.at(static_cast<std::size_t>(found - problems.begin()));
  }
  choice_.what.problem = problem;
  open_space();
  make_key();
}

void Session::open_compiler(const SessionOptions& options) {
  const bool needed = recording() == nullptr;
  if (needed && options.no_compile) {
    throw BadField("no_compile", "it is for recordings; a GPU measures compiled kernels only");
  }
  if (options.no_compile || kernel() == nullptr) return;
  if (!needed && !within_domains(recording()->space, space_file_->parameters())) {
    warn(WarningKind::nothing_compiled, "The recording was made with other parameters or values than " + kernel_name() +
                                            " has now: nothing is compiled.");
    return;
  }
  try {
    compiler_ = std::make_unique<Compiler>(Compiler::Options{.architecture = info().architecture,
                                                             .load = {options.waits.start_limit, options.waits.slow}});
  } catch (const BrokenEnvironment& error) {
    if (needed || environment_variable("MOETUNE_NVRTC") != nullptr) throw;  // a compiler that was named is to be used
    warn(WarningKind::nothing_compiled, std::string("Nothing is compiled: ") + error.what());
    return;
  }
  pool_ = std::make_unique<CompilePool>(*compiler_, thread_count(options),
                                        cache_ != nullptr ? build_store(*cache_) : CompilePool::Store());
  if (choice_.builder != nullptr) {
    *choice_.builder = [this](const std::vector<CompileUnit>& units) { return build_now(units); };
  }
}

DeviceChoice Session::release_device() {
  pool_.reset();
  if (choice_.builder != nullptr) *choice_.builder = nullptr;  // it builds through this session
  return std::move(choice_);
}

std::vector<BuildPtr> Session::build_now(const std::vector<CompileUnit>& units) {
  std::vector<BuildPtr> builds = pool_->build_now(units);
  for (const BuildPtr& build : builds) programs_compiled_ += build != nullptr && build->seconds > 0;
  return builds;
}

std::string Session::problem_text() const { return kernel() == nullptr ? recording()->problem : problem().text(); }

Assignment Session::environment() const { return expression_environment(problem(), info().limits); }

TuneRequest Session::request(const TuneSettings& settings) const {
  TuneRequest request{settings};
  request.policy.timing = timing_;
  request.ready_first = !info().recorded;
  // Without a compiler nothing is planned: a recording may lack a parameter that today's plans read.
  if (compiler_ != nullptr) request.kernel = kernel();
  request.foreign = kernel() == nullptr;
  request.problem = problem();
  request.space = &space();
  request.default_config = default_config_;
  const std::optional<Floor> least = floor(Launches::overlapping);
  request.work = work_of(cost(), least);
  request.floor_us = least ? least->us : 0;
  request.least_us = least_us();
  if (recording() != nullptr) request.objective = recording()->objective;
  return request;
}

std::int64_t Session::enter_workload() {
  if (cache_ == nullptr) return 0;
  const std::int64_t workload = cache_->workloads.id(key_, kernel() == nullptr ? "" : stored_family(key_));
  cache_->workloads.begin_search(workload);
  return workload;
}

TuneTools Session::tools(std::int64_t workload) {
  return {.device = device(), .cache = cache_.get(), .workload = workload, .compiler = pool_.get(), .events = events_};
}

TuneResult Session::tune(const TuneRequest& request, std::stop_token stop) {
  return moetune::tune(request, tools(enter_workload()), std::move(stop));
}

void Session::store_winner(const TuneRequest& request, const TuneResult& result) {
  moetune::store_winner(request, tools(enter_workload()), result);
}

Config Session::parse_config(const std::string& text) const {
  return as_field("config",
                  [&] { return space_file_->parse_config(text, default_config_ ? &*default_config_ : nullptr); });
}

Attempt Session::try_compile(Plan plan, const Config& config) {
  const std::shared_future<BuildPtr> compiled = pool_->submit(plan.unit);
  while (compiled.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (stop_.stop_requested()) throw Stopped();
  }
  const BuildPtr build = compiled.get();
  pool_->flush();
  Attempt attempt{.candidate = {config, std::move(plan), build}};
  if (build->outcome != Outcome::ok) {
    attempt.outcome = build->outcome;
    attempt.message = "it does not compile: " + build->message;
    return attempt;
  }
  const std::string reason = why_unlaunchable(attempt.candidate.plan, *build, info().limits);
  if (!reason.empty()) {
    attempt.outcome = Outcome::pruned;
    attempt.message = "it cannot be launched on " + info().key.name + ": " + reason;
  }
  return attempt;
}

Attempt Session::try_compile(const Config& config) {
  const std::string reason = space_file_->why_illegal(config, environment(), Rules::must);
  if (!reason.empty()) throw BadField("config", "configuration " + config.text() + " cannot run here: " + reason);
  return try_compile(kernel()->plan(config, problem(), info().limits), config);
}

Candidate Session::compile(const Config& config) {
  Attempt attempt = try_compile(config);
  if (attempt.outcome == Outcome::ok) return std::move(attempt.candidate);
  const std::string sentence = "configuration " + config.text() + ": " + attempt.message;
  if (attempt.outcome == Outcome::pruned) throw BadField("config", sentence);
  throw BrokenEnvironment(sentence + "\n" + attempt.candidate.build->log);
}

Ceilings Session::ceilings() const {
  if (recording() == nullptr) return stored_ceilings(cache_.get(), info().key);
  Ceilings recorded{.l2_bytes = recording()->hardware.l2_bytes};
  if (recording()->read_tb_s > 0) recorded.read_tb_s = recording()->read_tb_s;
  if (recording()->launch_us > 0) recorded.launch_us = recording()->launch_us;
  return recorded;
}

Cost Session::cost() const { return kernel() == nullptr ? Cost() : kernel()->cost(problem()); }

std::optional<Floor> Session::floor(Launches launches) const { return floor_of(cost(), ceilings(), launches); }

double Session::least_us() const {
  if (kernel() == nullptr) return 0;
  return least_time_us(*kernel(), problem(), timing_, ceilings(), peak_of(info().key, info().memory_bus_bits));
}

// The default's: whether launches overlap is the kernel's choice and the device's, not the configuration's.
Launches Session::launches() const {
  if (kernel() == nullptr) return Launches::overlapping;
  const std::optional<Config> config = space_file_->default_config(environment());
  if (!config) return Launches::overlapping;
  return launches_of(kernel()->plan(*config, problem(), info().limits));
}

Subject Session::subject() const {
  Subject subject{.kernel = kernel_name(),
                  .problem = problem_text(),
                  .dimensions = problem().dims,
                  .device = info(),
                  .floor = floor(launches())};
  subject.work = work_of(cost(), subject.floor);
  if (cache_ != nullptr) subject.cache = cache_->path().string();
  if (recording() == nullptr) return subject;
  subject.optimum_us = recording()->optimum_us();
  subject.objective = recording()->objective;
  return subject;
}

}  // namespace moetune
