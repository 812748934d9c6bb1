#include "serve/device_fit.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <variant>

#include "base/error.h"
#include "base/regular_file.h"
#include "jobs/device_choice.h"
#include "kernels/registry.h"
#include "replay/shipped.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRecordingPrefix = "replay:";
constexpr std::size_t kMostRecording = std::size_t{1} << 30;

void add_header(const fs::path& file, std::vector<RecordingHeader>& headers) {
  try {
    headers.push_back(parse_recording_header(read_regular_file(file, kMostRecording), file.string()));
    return;
  } catch (const BadInput&) {  // one of Kernel Tuner's has no header
  }
  try {
    const Recording recording = read_recording(file);
    headers.push_back({recording.hardware.name, recording.kernel, recording.problem, recording.recorded_at});
  } catch (const BadInput&) {
  }
}

// What a job asks of a recording; "" is any.
struct Wish {
  std::string kernel, problem, family;
};

Wish wish_of(const WorkloadSpec& spec, bool is_range) {
  if (!spec.kernel) return {};
  Wish wish{.kernel = *spec.kernel};
  const Kernel* const kernel = known_kernel(wish.kernel);
  if (kernel == nullptr || (!spec.names_problem() && !is_range)) return wish;
  const Problem problem = problem_of(*kernel, spec);
  (is_range ? wish.family : wish.problem) =
      is_range ? kernel->specialization(problem).text() : problem.text();
  return wish;
}

std::vector<Wish> wishes_of(const TuningWork& work) {
  std::vector<Wish> wishes;
  for (const TuningPoint& point : work.points)
    wishes.push_back(wish_of({.kernel = point.kernel, .problem = point.problem, .preset = ""}, false));
  for (const TuningRange& range : work.ranges)
    wishes.push_back(wish_of({.kernel = range.kernel, .problem = range.problem, .preset = ""}, true));
  return wishes;
}

// What the job asks of a recording; nullopt for one that runs kernels.
std::optional<std::vector<Wish>> wishes_of(const JobRequest& request) {
  if (const auto* search = std::get_if<SearchRequest>(&request.what))
    return std::vector{wish_of(search->target.workload, false)};
  if (const auto* range = std::get_if<RangeRequest>(&request.what))
    return std::vector{wish_of(range->target.workload, true)};
  if (const auto* list = std::get_if<TuneListRequest>(&request.what)) return wishes_of(work_of(list->list));
  if (const auto* night = std::get_if<NightRequest>(&request.what)) return wishes_of(work_of(night->list));
  return std::nullopt;
}

}  // namespace

std::vector<RecordingHeader> recorded_headers(const std::string& device) {
  const bool is_named = device != kShippedRecordings;
  const std::string name = device.substr(kRecordingPrefix.size());
  std::vector<RecordingHeader> headers;
  std::error_code unreachable;
  if (is_named && fs::is_directory(name, unreachable)) {
    for (const auto& entry : fs::directory_iterator(name, unreachable)) {
      if (entry.path().filename().string().find(".json") != std::string::npos)
        add_header(entry.path(), headers);
    }
  } else if (is_named && fs::exists(name, unreachable)) {
    add_header(name, headers);
  } else {
    for (const ShippedRecording& shipped : list_shipped_recordings()) {
      if (shipped.damage.empty() && (!is_named || shipped.name() == name)) headers.push_back(shipped.header);
    }
  }
  return headers;
}

DeviceFit::DeviceFit(const std::vector<std::string>& devices) : devices_(devices) {
  for (const std::string& device : devices) {
    if (!device.starts_with(kRecordingPrefix)) continue;
    std::vector<Recorded>& all = recorded_[device];
    for (const RecordingHeader& header : recorded_headers(device)) {
      Recorded one{.kernel = header.kernel};
      try {
        if (const Kernel* const kernel = known_kernel(header.kernel)) {
          const Problem problem = parse_problem(kernel->name(), kernel->schema(), nullptr, header.problem);
          one.problem = problem.text();
          one.family = kernel->specialization(problem).text();
        }
      } catch (const BadInput&) {  // of a problem that this version does not know
      }
      all.push_back(std::move(one));
    }
  }
}

bool DeviceFit::can_run(const JobRequest& request, const std::string& device) const try {
  const auto found = recorded_.find(device);
  const std::optional<std::vector<Wish>> wishes = wishes_of(request);
  if (found == recorded_.end())  // a GPU has no kernel of its own, as a recording does
    return !wishes || std::ranges::none_of(*wishes, [](const Wish& wish) { return wish.kernel.empty(); });
  return wishes && std::all_of(wishes->begin(), wishes->end(), [&](const Wish& wish) {
           return std::any_of(found->second.begin(), found->second.end(), [&](const Recorded& one) {
             return (wish.kernel.empty() || wish.kernel == one.kernel) &&
                    (wish.problem.empty() || wish.problem == one.problem) &&
                    (wish.family.empty() || wish.family == one.family);
           });
         });
} catch (const BadInput&) {  // the job says what is wrong with it
  return true;
}

bool DeviceFit::is_to_run(const JobRequest& request, const std::string& device) const {
  return can_run(request, device) ||
         std::none_of(devices_.begin(), devices_.end(),
                      [&](const std::string& other) { return can_run(request, other); });
}

}  // namespace moetune
