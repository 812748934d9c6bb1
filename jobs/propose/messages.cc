#include "jobs/propose/messages.h"

#include "base/json.h"
#include "base/resources.h"
#include "tuner/compile/sources.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

constexpr std::size_t kLargestSource = std::size_t{1} << 20;

Document parameters_document(const std::vector<Parameter>& parameters) {
  Document all = Document::array();
  for (const Parameter& parameter : parameters) {
    Document values = Document::array();
    for (const Value& value : parameter.values)
      values.push_back(value.is_named() ? Document(value.name) : Document(value.number));
    all.push_back({{"name", parameter.name}, {"values", std::move(values)}, {"doc", parameter.doc}});
  }
  return all;
}

// The files that the kernel's candidates compile from, by path: {} if they are too large.
Document source_document(const std::string& kernel) {
  const std::string folder = "templates/" + kernel + "/";
  Document files = Document::object();
  std::size_t bytes = 0;
  for (const std::string& path : list_resources(folder)) {
    if (!path.ends_with(".cu") || path.ends_with("/reference.cu")) continue;
    for (SourceFile& file : collect_sources(path)) {
      bytes += files.contains(file.path) ? 0 : file.text.size();
      files[file.path] = std::move(file.text);
    }
  }
  return bytes <= kLargestSource ? files : Document::object();
}

}  // namespace

Document hello_document(const Session& session, const TuneRequest& request) {
  Document hello = {
      {"kernel", session.kernel_name()},
      {"problem", session.problem_text()},
      {"dimensions", assignment_document(session.problem().dims)},
      {"device", device_document(session.info())},
      {"objective", request.objective ? Document(request.objective->name) : Document("time")},
      {"larger_is_better", request.objective && request.objective->larger_is_better},
      {"parameters", parameters_document(session.space().parameters())},
      {"let", Document::object()},
      {"constraints", Document::array()},
      {"legal", session.space().size()},
      {"default", request.default_config ? assignment_document(*request.default_config) : Document(nullptr)},
      {"source", Document::object()},
      {"budget", request.budget},
      {"time_s", request.time_budget_s},
      {"seed", request.seed}};
  if (session.kernel() == nullptr) return hello;
  const std::string path = "spaces/" + session.kernel_name() + ".json";
  const Document space = parse_json(read_resource(path), path);
  for (const char* key : {"let", "constraints"}) {
    if (space.contains(key)) hello[key] = space[key];
  }
  hello["source"] = source_document(session.kernel_name());
  return hello;
}

Document tell_document(const Trial& trial, const Build* build, const std::optional<Objective>& objective,
                       const std::optional<Floor>& floor) {
  const TrialResult& result = trial.result;
  Document tell = trial_document(trial, objective);
  tell["config"] = assignment_document(trial.config);
  if (has_time(result.outcome) && tell.contains("time_us")) {
    const Measurement& measured = result.measurement;
    tell["interval"] = {number_or_null(measured.low_us), number_or_null(measured.high_us)};
    if (floor) tell["roofline"] = number_or_null(floor->roofline_fraction(measured.median_us));
  }
  if (result.error_share > 0) {
    tell["error"] = result.max_error;
    tell["allowed"] = result.max_error / result.error_share;
  }
  if (build == nullptr || build->entries.empty()) return tell;
  const EntryFacts worst = worst_facts(*build);
  tell["registers"] = worst.registers;
  tell["spills"] = worst.spill_store_bytes;
  tell["shared"] = worst.static_shared;
  return tell;
}

}  // namespace moetune
