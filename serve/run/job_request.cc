#include "serve/run/job_request.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/as_field.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/suggest.h"
#include "jobs/range/plan.h"
#include "kernels/registry.h"
#include "ranges/grid.h"
#include "serve/queue/job_document.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostText = 4096;
constexpr std::uint64_t kAnySeed = std::numeric_limits<std::uint64_t>::max();

// Reads the fields of one object, each with its default and its bounds, and notes them in the canonical object. Of an
// empty object, with a request's own values for defaults, that object is the request.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {
    if (!object.is_object()) throw BadField("request", "it must be an object");
  }

  template <typename Number>
  void whole(const char* name, Number& value, std::uint64_t least, std::uint64_t most) {
    if (const Json* found = find(name)) {
      const bool is_whole =
          found->is_number_unsigned() && found->get<std::uint64_t>() >= least && found->get<std::uint64_t>() <= most;
      if (!is_whole) throw BadField(name, format("it must be a whole number from %zu to %zu", least, most));
      value = found->get<Number>();
    }
    canonical_[name] = value;
  }
  void number(const char* name, double& value, double most) {
    if (const Json* found = find(name)) {
      const bool is_in = found->is_number() && found->get<double>() >= 0 && found->get<double>() <= most;
      if (!is_in) throw BadField(name, format("it must be a number from 0 to %g", most));
      value = found->get<double>();
    }
    canonical_[name] = value;
  }
  // 0 and absent mean as long as the service lets a job run.
  void seconds(const char* name, double& value, double most) {
    number(name, value, most);
    if (value <= 0) value = most;
    canonical_[name] = value;
  }
  void flag(const char* name, bool& value) {
    if (const Json* found = find(name)) {
      if (!found->is_boolean()) throw BadField(name, "it must be true or false");
      value = found->get<bool>();
    }
    canonical_[name] = value;
  }
  void text(const char* name, std::string& value) {
    if (const Json* found = find(name)) {
      if (!found->is_string() || found->get_ref<const std::string&>().size() > kMostText)
        throw BadField(name, format("it must be a text of at most %zu bytes", kMostText));
      value = found->get<std::string>();
    }
    canonical_[name] = value;
  }
  void text(const char* name, std::optional<std::string>& value) {
    if (find(name) == nullptr && !value) return;
    std::string given = value.value_or("");
    text(name, given);
    value = given;
  }
  const Json* find(const char* name) {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.emplace_back(name);
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  void note(const char* name, Json value) { canonical_[name] = std::move(value); }
  const Json& canonical() const { return canonical_; }
  void finish(JobRequest& request) const {
    for (const auto& [name, value] : object_.items()) {
      if (std::find(names_.begin(), names_.end(), name) == names_.end())
        throw BadField("request", unknown_name("field", name.substr(0, 100), names_));
    }
    request.canonical = canonical_.dump(-1, ' ', false, Json::error_handler_t::replace);
    request.shown = shown_of_request(canonical_);
  }

 private:
  const Json& object_;
  Json canonical_ = Json::object();
  std::vector<std::string> names_;
};

void check_size(const Kernel& kernel, const Problem& problem, const JobLimits& limits) {
  const Cost cost = kernel.cost(problem);
  const double bytes = cost.bytes();
  if (bytes > limits.bytes)
    throw BadField("problem", format("a launch moves %.3g GB; this service takes at most %.3g", bytes * 1e-9,
                                     limits.bytes * 1e-9));
}

// `over`: the problem's other dimensions come later.
void read_workload(Fields& fields, WorkloadSpec& workload, const JobLimits& limits, bool is_kernel_needed) {
  fields.text("kernel", workload.kernel);
  fields.text("problem", workload.problem);
  fields.text("preset", workload.preset);
  if (!workload.kernel) {
    if (is_kernel_needed) throw BadField("kernel", "it is needed");
    return;
  }
  const Kernel* const kernel = known_kernel(*workload.kernel);
  if (kernel == nullptr) return;  // a recording's; the job says if it is not
  const Problem problem = problem_of(*kernel, workload);
  check_size(*kernel, problem, limits);
  if (!workload.names_problem()) return;
  workload.problem = problem.text();
  workload.preset.clear();
  fields.note("problem", workload.problem);
  fields.note("preset", "");
}

void read_timing(Fields& fields, Timing& timing) {
  std::string name(timing_name(timing));
  fields.text("timing", name);
  const std::optional<Timing> known = timing_from_name(name);
  if (!known) throw BadField("timing", unknown_name("timing", name.substr(0, 100), kTimings, timing_name));
  timing = *known;
}

void read_settings(Fields& fields, TuneSettings& settings, const JobLimits& limits) {
  fields.whole("budget", settings.budget, 1, limits.budget);
  fields.seconds("time_s", settings.time_budget_s, limits.seconds);
  fields.text("strategy", settings.strategy);
  if (settings.strategy.starts_with("external"))
    throw BadField("strategy", "a job brings no program of its own; `moetune search --strategy external:` runs one");
  fields.whole("seed", settings.seed, 0, kAnySeed);
  fields.flag("fresh", settings.fresh);
  fields.whole("finalists", settings.finalists, 1, 100);
  fields.whole("in_flight", settings.in_flight, 1, 4096);
  fields.number("trial_time_s", settings.policy.time_limit_s, 3600);
  if (settings.policy.time_limit_s <= 0) throw BadField("trial_time_s", "it must be above 0");
  fields.whole("quiet_wait_s", settings.quiet_wait_s, 0, 86'400);
  fields.number("until_gain", settings.until_gain, 1);
  read_timing(fields, settings.policy.timing);
  fields.flag("all_timings", settings.all_timings);
}

void read_search(Fields& fields, SearchRequest& request, const JobLimits& limits) {
  read_settings(fields, request.settings, limits);
  fields.flag("cold", request.cold);
  fields.flag("no_compile", request.no_compile);
}

// The cells of the first grid, as values of all free dimensions. Empty for a range that is none: the job says why.
std::vector<Extents> range_cells(const Kernel& kernel, const Problem& base, const RangeRequest& request,
                                 const JobLimits& limits) {
  const std::vector<std::string>& names = kernel.free_dimensions();
  std::vector<std::size_t> places;
  std::vector<std::vector<std::int64_t>> axes;
  std::size_t cells = 1;
  try {
    for (const DimensionRange& range : parse_ranges(request.over)) {
      const auto name = std::find(names.begin(), names.end(), range.name);
      if (name == names.end()) return {};
      places.push_back(static_cast<std::size_t>(name - names.begin()));
      axes.push_back(axis_coordinates(range.first, range.last, RangePlan::kOctaves));
      cells *= axes.back().size();
    }
  } catch (const BadInput&) {
    return {};
  }
  if (cells > limits.points)
    throw BadField("over", format("its grid has %zu cells; this service takes at most %zu", cells, limits.points));
  std::vector<Extents> all;
  for (const GridPoint& point : grid_points(axes)) {
    all.push_back(kernel.extents_of(base));
    for (std::size_t i = 0; i < point.size(); ++i) all.back()[places[i]] = point[i];
  }
  return all;
}

void check_range(const RangeRequest& request, const JobLimits& limits) {
  const Kernel* const kernel = known_kernel(request.target.workload.kernel.value_or(""));
  if (kernel == nullptr) return;
  const Problem base = problem_of(*kernel, request.target.workload);
  const Assignment specialization = kernel->specialization(base);
  for (const Extents& extents : range_cells(*kernel, base, request, limits)) {
    std::optional<Problem> problem;
    try {
      problem = kernel->problem_of(specialization, extents);
      kernel->check(*problem);
    } catch (const BadInput&) {  // the job leaves it out
      continue;
    }
    try {
      check_size(*kernel, *problem, limits);
    } catch (const BadField& error) {
      throw BadField("over", problem->text() + ": " + error.reason());
    }
  }
}

void read_range(Fields& fields, RangeRequest& request, const JobLimits& limits) {
  fields.text("over", request.over);
  request.settings.time_budget_s = request.time_s;
  read_settings(fields, request.settings, limits);
  request.time_s = std::exchange(request.settings.time_budget_s, 0);
  fields.number("regret", request.regret, 10);
  fields.whole("variants", request.variants, 1, 64);
  fields.whole("shapes", request.certificate_shapes, 0, 1000);
  request.shape_budget = std::min<std::size_t>(request.shape_budget, limits.budget);
  fields.whole("shape_budget", request.shape_budget, 1, limits.budget);
  fields.flag("no_compile", request.no_compile);
}

WorkloadList read_list(Fields& fields, const JobLimits& limits) {
  const Json* const list = fields.find("workloads");
  if (list == nullptr) throw BadField("workloads", "it is needed: the document of docs/workloads.md");
  WorkloadList workloads = parse_workloads(list->dump(), "workloads");
  const std::vector<TuningPoint> points = points_of(workloads);
  if (points.size() > limits.points)
    throw BadField("workloads",
                   format("it has %zu shapes; this service takes at most %zu", points.size(), limits.points));
  for (const TuningPoint& point : points) {
    const Kernel& kernel = find_kernel(point.kernel);
    check_size(kernel, problem_of(kernel, {.kernel = point.kernel, .problem = point.problem, .preset = ""}), limits);
  }
  fields.note("workloads", *list);
  return workloads;
}

TuneListRequest read_tune(Fields& fields, const JobLimits& limits) {
  TuneListRequest request{.list = read_list(fields, limits), .search = {}};
  fields.whole("budget", request.search.settings.budget, 1, limits.budget);
  fields.seconds("time_s", request.time_s, limits.seconds);
  fields.whole("quiet_wait_s", request.search.settings.quiet_wait_s, 0, 86'400);
  fields.flag("no_compile", request.search.no_compile);
  return request;
}

NightRequest read_night(Fields& fields, const JobLimits& limits) {
  NightRequest request{.list = read_list(fields, limits), .search = {}, .plan = {}, .rework = {}, .now = {}};
  fields.whole("budget", request.search.settings.budget, 1, limits.budget);
  request.plan.budget = request.search.settings.budget;
  fields.seconds("time_s", request.time_s, limits.seconds);
  fields.number("max_age_s", request.plan.max_age_s, 1e9);
  std::string shard;
  fields.text("shard", shard);
  if (!shard.empty()) request.plan.shard = as_field("shard", [&] { return parse_shard(shard); });
  fields.whole("quiet_wait_s", request.rework.quiet_wait_s, 0, 86'400);
  fields.flag("no_compile", request.search.no_compile);
  return request;
}

VerifyRequest read_verify(Fields& fields, const JobLimits& limits) {
  VerifyRequest request;
  read_workload(fields, request.target.workload, limits, true);
  fields.text("config", request.config);
  fields.whole("seed", request.seed, 0, 1'000'000'000);
  fields.whole("seeds", request.seeds, 1, 1000);
  fields.number("trial_time_s", request.trial_time_s, 3600);
  return request;
}

BenchRequest read_bench(Fields& fields, const JobLimits& limits) {
  BenchRequest request;
  read_workload(fields, request.target.workload, limits, true);
  fields.text("config", request.config);
  fields.whole("seed", request.seed, 0, 1'000'000'000);
  fields.whole("rounds", request.rounds, 1, 100'000);
  read_timing(fields, request.timing);
  fields.whole("quiet_wait_s", request.quiet_wait_s, 0, 86'400);
  return request;
}

}  // namespace

JobRequest parse_job_request(const std::string& kind, const Json& request, const JobLimits& limits,
                             const std::vector<std::string>& devices) {
  Fields fields(request);
  JobRequest parsed{.kind = kind, .device = {}, .canonical = {}, .shown = {}, .what = {}};
  fields.text("device", parsed.device);
  if (!parsed.device.empty() && std::find(devices.begin(), devices.end(), parsed.device) == devices.end())
    throw BadField("device", unknown_name("device of this service", parsed.device, devices));
  if (kind == "search") {
    auto& search = parsed.what.emplace<SearchRequest>();
    read_workload(fields, search.target.workload, limits, false);
    read_search(fields, search, limits);
  } else if (kind == "range") {
    auto& range = parsed.what.emplace<RangeRequest>();
    range.settings.policy.timing = Timing::chained;  // as `moetune search --over` has it
    read_workload(fields, range.target.workload, limits, true);
    read_range(fields, range, limits);
    if (range.over.empty()) throw BadField("over", "it is needed: \"batch=1..256,context=512..128k\"");
    check_range(range, limits);
  } else if (kind == "tune") {
    parsed.what = read_tune(fields, limits);
  } else if (kind == "retune") {
    parsed.what = read_night(fields, limits);
  } else if (kind == "verify") {
    parsed.what = read_verify(fields, limits);
  } else if (kind == "bench") {
    parsed.what = read_bench(fields, limits);
  } else {
    throw BadField("kind", unknown_name("kind of job", kind, {std::begin(kJobKinds), std::end(kJobKinds)}));
  }
  fields.finish(parsed);
  return parsed;
}

namespace {

template <typename Request>
Json written(Request request, void (*read)(Fields&, Request&, const JobLimits&)) {
  const Json nothing = Json::object();
  Fields fields(nothing);
  WorkloadSpec& workload = request.target.workload;
  fields.text("kernel", workload.kernel);
  fields.text("problem", workload.problem);
  fields.text("preset", workload.preset);
  read(fields, request, {.budget = std::numeric_limits<std::uint64_t>::max(), .seconds = 0});
  if (request.target.device != "auto") fields.note("device", request.target.device);
  return fields.canonical();
}

}  // namespace

Json search_fields(const SearchRequest& request) { return written(request, read_search); }
Json range_fields(const RangeRequest& request) { return written(request, read_range); }

Json night_fields(const NightRequest& request) {
  Json fields = {{"workloads", parse_json(workloads_text(request.list), "the list")},
                 {"budget", request.search.settings.budget},
                 {"time_s", request.time_s},
                 {"max_age_s", request.plan.max_age_s},
                 {"quiet_wait_s", request.rework.quiet_wait_s},
                 {"no_compile", request.search.no_compile}};
  const Shard& shard = request.plan.shard;
  if (shard.count > 1) fields["shard"] = std::to_string(shard.number) + "/" + std::to_string(shard.count);
  if (request.search.target.device != "auto") fields["device"] = request.search.target.device;
  return fields;
}

}  // namespace moetune
