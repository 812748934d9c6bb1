#include "workloads/prepare.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/lists.h"
#include "jobs/session/device_choice.h"
#include "jobs/session/stores.h"
#include "kernels/registry.h"
#include "ranges/grid.h"
#include "workloads/model_config.h"

namespace moetune {
namespace {

// Roughly those of an H200: only the ratios of times count.
constexpr double kLaunchUs = 2, kBytesPerUs = 4.5e6, kFlopsPerUs = 6e8;

std::vector<std::string> problems_in(const WorkloadEntry& entry) {
  return gathered(points_of(entry), &TuningPoint::problem);
}

// The time of a launch over the entry's shapes, in the geometric mean.
double typical_us(const WorkloadEntry& entry) {
  const Kernel& kernel = find_kernel(entry.kernel);
  double sum = 0;
  const std::vector<std::string> shapes = problems_in(entry);
  for (const std::string& shape : shapes) {
    const Cost cost = kernel.cost(kernel.parse(shape));
    const double flops = cost.flops.bf16 + cost.flops.fp16 + cost.flops.e4m3 / 2 + cost.flops.fp32 * 8;
    sum += std::log(kLaunchUs + std::max(cost.bytes() / kBytesPerUs, flops / kFlopsPerUs));
  }
  return shapes.empty() ? kLaunchUs : std::exp(sum / static_cast<double>(shapes.size()));
}

WorkloadEntry entry_of(const TuningRange& range) {
  return {.kernel = range.kernel, .problem = range.problem, .ranges = parse_ranges(range.over), .weight = range.weight};
}

// The free dimensions of one shape, as those of a range: "batch=8,context=4096".
std::string shape_text(const TuningPoint& point) {
  const Kernel& kernel = find_kernel(point.kernel);
  const Extents extents = kernel.extents_of(kernel.parse(point.problem));
  std::string text;
  for (std::size_t i = 0; i < kernel.free_dimensions().size(); ++i)
    text += (i == 0 ? "" : ",") + kernel.free_dimensions()[i] + "=" + std::to_string(extents[i]);
  return text;
}

std::vector<PreparedFamily> families_of(const ModelPlan& plan) {
  WorkloadList list;
  for (const ModelWorkload& one : plan.workloads) {
    WorkloadEntry entry{.name = one.name, .kernel = one.kernel, .problem = one.problem, .ranges = one.ranges};
    entry.weight = one.weight * typical_us(entry);
    list.entries.push_back(std::move(entry));
  }
  std::vector<PreparedFamily> families;
  TuningWork work = work_of(list);
  for (const TuningPoint& point : work.points)
    work.ranges.push_back({point.kernel, point.problem, shape_text(point), point.weight});
  for (TuningRange& range : work.ranges) {
    const Kernel& kernel = find_kernel(range.kernel);
    const Problem problem = kernel.parse(range.problem);
    families.push_back({.range = std::move(range), .family = kernel.specialization(problem).text()});
  }
  std::ranges::stable_sort(families, std::greater(), [](const PreparedFamily& one) { return one.range.weight; });
  return families;
}

// Asks what serves now, and keeps each warning once. Sets nothing if stopped.
void ask_served(const PrepareRequest& request, const std::stop_token& stop, PrepareResult& result,
                std::optional<ServedFamily> PreparedFamily::*answer) {
  std::vector<std::filesystem::path> files;
  const CacheChoice& cache = request.tune.search.target.cache;
  if (open_existing_cache(cache) != nullptr) files.push_back(cache.file());
  files.insert(files.end(), request.packs.begin(), request.packs.end());
  std::vector<AskedFamily> asked;
  for (const PreparedFamily& one : result.families)
    asked.push_back({one.range.kernel, one.range.problem, problems_in(entry_of(one.range))});
  std::optional<ServedFamilies> served = find_served(files, *result.gpu, asked, stop);
  if (!served) return;
  for (std::string& warning : served->warnings) {
    if (std::ranges::find(result.warnings, warning) == result.warnings.end())
      result.warnings.push_back(std::move(warning));
  }
  for (std::size_t i = 0; i < result.families.size(); ++i) result.families[i].*answer = std::move(served->families[i]);
}

bool is_of(const PreparedFamily& family, const TuningRange& range) {
  const auto& [kernel, problem, over, weight] = range;
  const Kernel& known = find_kernel(kernel);
  return family.range.kernel == kernel && family.range.over == over &&
         known.specialization(known.parse(problem)).text() == family.family;
}

void note_tuned(PrepareResult& result, const TuningRange& range, TunedState state, const std::string& why) {
  for (PreparedFamily& family : result.families) {
    if (!is_of(family, range)) continue;
    family.tuned = state;
    family.why = why;
  }
}

// Whether the cache has a table of the family for this GPU. It may be unfinished, although its first cells enclose most
// shapes; tune_list() finds at once if it is complete.
bool has_own_table(const Cache* cache, const PreparedFamily& family) {
  if (cache == nullptr || family.before->inherited) return false;
  return std::ranges::any_of(
      cache->ranges.of_family(family.range.kernel, family.family),
      [&](const FamilyRange& range) { return range.key.hardware.text() == family.before->hardware; });
}

void tune_the_rest(const PrepareRequest& request, const JobContext& context, const PointListener& ended,
                   const RangeListener& range_ended, PrepareResult& result) {
  TuneListRequest tune = request.tune;
  tune.list.entries.clear();
  tune.search.target.device = result.gpu->id;
  const auto cache = open_existing_cache(tune.search.target.cache);
  for (const PreparedFamily& family : result.families) {
    if (!family.before->is_tuned() || has_own_table(cache.get(), family))
      tune.list.entries.push_back(entry_of(family.range));
  }
  if (tune.list.entries.empty()) return;
  open_or_create_cache(tune.search.target.cache);  // throws before anything is tuned in vain
  const TuneListResult tuned = tune_list(tune, context, ended, range_ended);
  result.interrupted = tuned.interrupted;
  result.out_of_time = tuned.out_of_time && !tuned.interrupted;
  for (const TunedRange& one : tuned.ranges) note_tuned(result, one.range, one.state, one.why);
  for (const TunedPoint& one : tuned.points)
    note_tuned(result, {one.point.kernel, one.point.problem, shape_text(one.point), one.point.weight}, one.state,
               one.why);
  ask_served(request, context.stop, result, &PreparedFamily::after);
}

Document served_document(const std::optional<ServedFamily>& served) {
  if (!served) return nullptr;
  Document document = {{"serves", served->why_none.empty()},
                       {"tuned", served->is_tuned()},
                       {"shapes", served->shapes},
                       {"tuned_shapes", served->tuned}};
  if (!served->why_none.empty()) document["why"] = served->why_none;
  if (!served->hardware.empty()) document["hardware"] = served->hardware;
  document["inherited"] = served->inherited;
  return document;
}

}  // namespace

std::size_t PrepareResult::unserved() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      families, [](const PreparedFamily& family) { return family.now() && !family.now()->why_none.empty(); }));
}

bool PrepareResult::is_known() const {
  return std::ranges::all_of(families, [](const PreparedFamily& family) { return family.now().has_value(); });
}

PrepareResult prepare(const PrepareRequest& request, const JobContext& context,
                      const std::function<void(const PrepareResult&)>& listed, const PointListener& ended,
                      const RangeListener& range_ended) {
  const ModelConfig config = read_model_config(request.model);
  ModelPlan plan = plan_server(config.facts, request.shape);
  PrepareResult result{.model = config.facts.name, .notes = config.notes};
  result.notes.insert(result.notes.end(), plan.notes.begin(), plan.notes.end());
  result.families = families_of(plan);
  try {
    result.gpu = find_gpu(request.tune.search.target.device, "prepare");
  } catch (const BrokenEnvironment& error) {
    const bool is_any = request.tune.search.target.device == "auto";
    if (!request.dry_run || !is_any || !list_gpus().devices.empty()) throw;
    result.why_no_gpu = error.what();
  }
  if (result.gpu) ask_served(request, context.stop, result, &PreparedFamily::before);
  listed(result);
  result.interrupted = context.stop.stop_requested();
  if (!request.dry_run && !result.interrupted) tune_the_rest(request, context, ended, range_ended, result);
  return result;
}

Document prepare_document(const PrepareResult& result) {
  Document families = Document::array();
  for (const PreparedFamily& family : result.families) {
    Document one = {{"kernel", family.range.kernel},
                    {"family", family.family},
                    {"problem", family.range.problem},
                    {"over", family.range.over},
                    {"weight", family.range.weight}};
    one["before"] = served_document(family.before);
    one["after"] = served_document(family.now());
    one["tuning"] = family.tuned ? Document(tuned_state_name(*family.tuned)) : Document(nullptr);
    if (!family.why.empty()) one["why"] = family.why;
    families.push_back(std::move(one));
  }
  return {{"model_type", result.model},
          {"device", result.gpu ? device_document(*result.gpu) : Document(nullptr)},
          {"families", std::move(families)},
          {"notes", result.notes},
          {"warnings", result.warnings},
          {"unserved", result.is_known() ? Document(result.unserved()) : Document(nullptr)},
          {"out_of_time", result.out_of_time},
          {"interrupted", result.interrupted}};
}

}  // namespace moetune
