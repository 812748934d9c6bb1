#include "cli/session.h"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <thread>

#include "base/digest.h"
#include "base/error.h"
#include "base/resources.h"
#include "cli/build_store.h"
#include "cli/stored_results.h"
#include "cli/text.h"
#include "tuner/ceilings.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

std::string space_path(const std::string& kernel) { return "spaces/" + kernel + ".json"; }

bool same_parameters(const std::vector<Parameter>& left, const std::vector<Parameter>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const Parameter& a, const Parameter& b) { return a.name == b.name; });
}

bool within_domains(const std::vector<Parameter>& recorded, const std::vector<Parameter>& known) {
  return same_parameters(recorded, known) &&
         std::equal(recorded.begin(), recorded.end(), known.begin(),
                    [](const Parameter& a, const Parameter& b) {
                      return std::all_of(a.values.begin(), a.values.end(), [&](const Value& value) {
                        return std::any_of(b.values.begin(), b.values.end(),
                                           [&](const Value& other) { return other.text() == value.text(); });
                      });
                    });
}

// The values as they stand, with no space to check them against: the plan beside them is what runs, and the
// space may have changed since.
Config stored_config(const std::string& text) {
  Config config;
  for (const auto& [name, value] : split_assignment(text, "the stored configuration")) {
    config.set(name, Value::named(value, 0));
  }
  return config;
}

unsigned thread_count(const CompileOptions& options) {
  if (options.threads > 0) return static_cast<unsigned>(options.threads);
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

Space load_space(const std::string& kernel) {
  Space space = Space::parse(read_resource(space_path(kernel)), space_path(kernel));
  if (space.kernel() != kernel) {
    throw BadInput(space_path(kernel) + ": \"kernel\" is '" + space.kernel() + "' and must be '" + kernel +
                   "', as the file is named");
  }
  return space;
}

std::string kernel_source_digest(const std::string& kernel) {
  DigestBuilder builder;
  for (const std::string& path : list_resources("templates/" + kernel)) {
    const bool own = path == "templates/" + kernel + ".cu" || path.starts_with("templates/" + kernel + "/");
    const bool reference = path.ends_with("/reference.cu");
    if (own && !reference && path.ends_with(".cu")) builder.add(path).add(source_digest(path));
  }
  return builder.finish();
}

Session::Session(DeviceChoice choice, const CacheChoice& cache, const CompileOptions& compile,
                 const Output& output, Purpose purpose)
    : choice_(std::move(choice)) {
  open_space();
  cache_ = open_or_create_cache(cache);
  output.note(choice_.banner);
  if (cache_ != nullptr && !cache_->warning().empty()) output.note(cache_->warning());
  open_compiler(compile, output);

  key_.kernel = kernel_name();
  key_.problem = problem_text();
  key_.hardware = info().key;
  if (kernel() != nullptr) key_.source_digest = kernel_source_digest(kernel_name());
  // A recording of an earlier space is of the templates of its time.
  if (kernel() != nullptr && recording() != nullptr &&
      !within_domains(recording()->space.parameters(), space_file_->parameters())) {
    key_.source_digest = recording()->source_digest;
  }
  if (purpose == Purpose::recording) key_.source_digest.insert(0, kRecordingMark);
  if (recording() != nullptr && compiler_ == nullptr) key_.toolchain = recording()->toolchain;
  if (compiler_ != nullptr) key_.toolchain = compiler_->toolchain();
  if (recording() != nullptr) keep_recorded_ceilings();
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
  space_file_ = load_space(kernel_name());
  default_config_ = space_file_->default_config(environment());
  if (recording() == nullptr) legal_ = space_file_->enumerate(environment());
  if (space().empty()) {
    throw BadInput("no configuration of " + kernel_name() + " is legal for " + problem().text() + " on " +
                   info().key.name +
                   (recording() == nullptr ? ": " + space_file_->why_empty(environment())
                                           : ": the recording holds none"));
  }
  // A recording may predate a default.
  if (default_config_ && !space().find(*default_config_)) default_config_.reset();
}

void Session::open_compiler(const CompileOptions& options, const Output& output) {
  const bool needed = recording() == nullptr;
  if (needed && options.none) {
    throw BadInput(
        "--no-compile is for recordings (--device replay:FILE): a GPU measures compiled kernels only");
  }
  if (options.none || kernel() == nullptr) return;
  if (!needed && !same_parameters(recording()->space.parameters(), space_file_->parameters())) {
    output.note("The recording was made with other parameters than " + kernel_name() +
                " has now: nothing is compiled.");
    return;
  }
  try {
    compiler_ = std::make_unique<Compiler>(Compiler::Options{.architecture = info().architecture});
  } catch (const BrokenEnvironment& error) {
    const char* const named = std::getenv("MOETUNE_NVRTC");
    if (needed || (named != nullptr && *named != '\0')) throw;  // a compiler that was named is to be used
    output.note(std::string("Nothing is compiled: ") + error.what());
    return;
  }
  if (cache_ != nullptr) store_ = build_store(*cache_);
  pool_ = std::make_unique<CompilePool>(*compiler_, thread_count(options), store_);
  if (choice_.builder != nullptr) {
    *choice_.builder = [this](const std::vector<CompileUnit>& units) { return build_now(units); };
  }
}

std::vector<BuildPtr> Session::build_now(const std::vector<CompileUnit>& units) {
  std::vector<std::future<Build>> builds;
  for (const CompileUnit& unit : units) {
    std::optional<Build> stored;
    if (store_.find) stored = store_.find(compiler_->digest(unit));
    if (stored) {
      builds.push_back(std::async(std::launch::deferred, [build = *std::move(stored)] { return build; }));
    } else {
      builds.push_back(std::async(std::launch::async, [this, &unit] { return compiler_->compile(unit); }));
    }
  }
  std::vector<BuildPtr> finished;
  for (std::future<Build>& build : builds) {
    finished.push_back(std::make_shared<const Build>(build.get()));
    const bool fresh = finished.back()->seconds > 0;
    programs_compiled_ += fresh;
    if (fresh && finished.back()->repeatable && store_.put) store_.put(*finished.back());
  }
  return finished;
}

std::string Session::problem_text() const {
  return kernel() == nullptr ? recording()->problem : problem().text();
}

Assignment Session::environment() const { return expression_environment(problem(), info().limits); }

TuneRequest Session::request() const {
  TuneRequest request;
  request.ready_first = !info().recorded;
  // Where nothing is compiled nothing is planned: a recording may lack a parameter that today's plans read.
  if (compiler_ != nullptr) request.kernel = kernel();
  request.problem = problem();
  request.space = &space();
  request.default_config = default_config_;
  request.floor_us = ceilings().read_us(bytes()).value_or(0);
  return request;
}

TuneTools Session::tools(TuneObserver* observer) {
  TuneTools tools{.device = device(), .cache = cache_.get(), .compiler = pool_.get(), .observer = observer};
  if (cache_ != nullptr) {
    tools.workload = cache_->workload(key_);
    cache_->begin_search(tools.workload);
  }
  return tools;
}

Config Session::parse_config(const std::string& text) const {
  return space_file_->parse_config(text, default_config_ ? &*default_config_ : nullptr);
}

Candidate Session::compile(const Config& config) {
  const std::string reason = space_file_->why_illegal(config, environment(), Rules::must);
  if (!reason.empty()) throw BadInput("configuration " + config.text() + " cannot run here: " + reason);
  return compile(kernel()->plan(config, problem(), info().limits), config, "configuration " + config.text());
}

Candidate Session::compile(Plan plan, const Config& config, const std::string& what) {
  const BuildPtr build = pool_->submit(plan.unit).get();
  pool_->flush();
  if (build->outcome != Outcome::ok) {
    throw BrokenEnvironment(what + " does not compile: " + build->message + "\n" + build->log);
  }
  const std::string reason = why_unlaunchable(plan, *build, info().limits);
  if (!reason.empty()) throw BadInput(what + " cannot be launched on " + info().key.name + ": " + reason);
  return {config, std::move(plan), build};
}

Ceilings Session::ceilings() const {
  if (recording() == nullptr) return stored_ceilings(cache_.get(), info().key);
  Ceilings recorded;
  if (recording()->read_tb_s > 0) recorded.read_tb_s = recording()->read_tb_s;
  if (recording()->launch_us > 0) recorded.launch_us = recording()->launch_us;
  return recorded;
}

double Session::bytes() const { return kernel() == nullptr ? 0 : kernel()->cost(problem()).bytes; }

std::optional<double> Session::floor_us() const { return ceilings().floor_us(bytes()); }

Candidate stored_candidate(Session& session, const Output& output) {
  std::optional<StoredResult> found;
  if (session.cache() != nullptr) found = find_winner(*session.cache(), session.key());
  if (!found) {
    throw BadInput("nothing is tuned yet for " + session.kernel_name() + " " + session.problem().text() +
                   " on " + session.info().key.name + "; start with: moetune search " +
                   session.kernel_name() + " --problem " + session.problem().text());
  }
  const WorkloadKey& key = found->workload.key;
  if (key.source_digest != session.key().source_digest || key.toolchain != session.key().toolchain) {
    output.note("The stored winner was tuned with other sources or another compiler (" + key.toolchain +
                "); a new search would start afresh.");
  }
  return from_winner(*found->winner, stored_config(found->winner->config));
}

}  // namespace moetune
