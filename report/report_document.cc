#include "report/report_document.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/lists.h"
#include "base/utf8.h"

namespace moetune {
namespace {

Document interval_document(double low, double high) {
  if (!(low > 0) || !(high > 0)) return nullptr;
  return {number_or_null(low), number_or_null(high)};
}

Document origin_document(const Origin& origin) {
  return {{"strategy", text_or_null(origin.strategy)},
          {"trials", origin.trials ? Document(*origin.trials) : Document(nullptr)},
          {"seed", origin.seed ? Document(*origin.seed) : Document(nullptr)},
          {"device", text_or_null(origin.device)},
          {"driver", text_or_null(origin.driver)},
          {"moetune", text_or_null(origin.version)}};
}

Document before_document(const WorkloadReport& report) {
  if (!report.before) return nullptr;
  const EarlierWinner& before = *report.before;
  return {{"time_us", number_or_null(before.time_us)},
          {"interval_us", interval_document(before.low_us, before.high_us)},
          {"config", before.config},
          {"stored_at", before.stored_at},
          {"replaced_because", text_or_null(before.reason)},
          {"gain", number_or_null(report.gain())}};
}

Document workload_document(const WorkloadReport& report) {
  Document document = result_document(report.stored);
  document["interval_us"] = interval_document(report.low_us, report.high_us);
  document["family"] = text_or_null(report.family);
  document["provenance"] = report.stored.winner ? origin_document(report.origin) : Document(nullptr);
  document["before"] = before_document(report);
  document["stale"] = report.stale;
  document["inherited_by"] = report.inherited_by;
  document["folded_into"] =
      report.folded_into > 0 ? Document("table:" + std::to_string(report.folded_into)) : Document(nullptr);
  document["kept"] = report.kept > 0 ? Document(report.kept) : Document(nullptr);
  return document;
}

Document parameters_document(const ParameterReport& parameters) {
  if (parameters.trials == 0) return nullptr;
  Document shares = Document::array(), pairs = Document::array();
  for (const MainEffect& effect : parameters.importance.main) {
    Document levels = Document::object();
    for (std::size_t l = 0; l < effect.by_level.size(); ++l)
      levels[parameters.factors[effect.factor].levels[l]] = effect.by_level[l];
    shares.push_back({{"parameter", parameters.factors[effect.factor].name},
                      {"share", effect.share},
                      {"mean_log2", std::move(levels)}});
  }
  for (const Interaction& pair : parameters.importance.pairs) {
    if (pairs.size() == 20) break;
    pairs.push_back({{"parameters", {parameters.factors[pair.first].name, parameters.factors[pair.second].name}},
                     {"share", pair.share}});
  }
  return {{"trials", parameters.trials},
          {"explained", parameters.importance.explained},
          {"main", std::move(shares)},
          {"pairs", std::move(pairs)}};
}

Document section_document(const HardwareSection& section) {
  Document ceilings = Document::object();
  for (const CeilingFigure& figure : kCeilingFigures)
    ceilings[figure.name] = number_or_null(section.ceilings.*figure.value);
  Document kernels = Document::array();
  for (const KernelSection& kernel : section.kernels) {
    kernels.push_back({{"kernel", kernel.kernel},
                       {"workloads", kernel.workloads.size()},
                       {"importance", parameters_document(kernel.parameters)}});
  }
  return {{"name", section.hardware.name},
          {"key", section.hardware.text()},
          {"recorded", section.recorded()},
          {"ceilings", std::move(ceilings)},
          {"kernels", std::move(kernels)}};
}

std::string csv_text(const std::string& text) {
  std::string cell = escape_controls(to_utf8(text));  // a line end may stand between quotes
  if (!cell.empty() && std::string("=+-@\t").find(cell.front()) != std::string::npos) cell.insert(0, "'");
  if (cell.find_first_of(",\"\n") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_number(double value) {
  return std::isfinite(value) && value > 0 ? format("%.9g", value) : std::string();
}

std::string csv_line(const std::vector<std::string>& cells) { return joined(cells, ",") + "\r\n"; }

constexpr const char* kTimingColumns = ",timing,chained_us,overlapped_us,alone_us,other_winner_if";

void add_timings(std::vector<std::string>& cells, Timing timing, const std::vector<TimingResult>& timings,
                 const std::string& winner) {
  cells.emplace_back(timing_name(timing));
  for (const Timing one : kTimings) {
    const auto found = std::ranges::find(timings, one, &TimingResult::timing);
    cells.push_back(found == timings.end() ? "" : csv_number(found->winner_us));
  }
  cells.push_back(joined(differing_timings(timings, winner), "; ", timing_name));
}

std::string workload_line(const WorkloadReport& report) {
  const StoredResult& stored = report.stored;
  const WorkloadKey& key = report.key();
  const auto ok = stored.outcomes.find("ok");
  std::vector<std::string> cells = {std::to_string(stored.workload.id),
                                    csv_text(key.kernel),
                                    csv_text(key.problem),
                                    csv_text(key.hardware.name),
                                    csv_text(key.hardware.origin),
                                    csv_text(stored.best_config),
                                    csv_number(stored.best_us),
                                    csv_number(report.low_us),
                                    csv_number(report.high_us),
                                    csv_number(stored.default_us),
                                    csv_number(stored.speedup()),
                                    csv_number(report.before ? report.before->time_us : 0),
                                    csv_number(report.gain()),
                                    csv_number(stored.roofline),
                                    csv_text(stored.bound),
                                    std::to_string(stored.trials),
                                    std::to_string(ok == stored.outcomes.end() ? 0 : ok->second),
                                    stored.winner ? "1" : "0",
                                    stored.contended ? "1" : "0",
                                    stored.damage.empty() ? "0" : "1",
                                    csv_text(joined(report.stale, "; ")),
                                    csv_text(report.stored_at),
                                    csv_text(report.origin.driver),
                                    csv_text(report.origin.strategy),
                                    csv_text(report.family)};
  add_timings(cells, key.timing, report.timings(), stored.best_config);
  return csv_line(cells);
}

std::string range_lines(const RangeReport& report, const std::vector<WorkloadReport>& workloads) {
  std::string text;
  const RangeTable& table = report.table;
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    const RangeCell& cell = table.cells[i];
    const RangeCellReport& more = report.cells[i];
    const WorkloadReport* const own = more.workload ? &workloads[*more.workload] : nullptr;
    std::vector<std::string> cells = {csv_text(report.key.kernel),
                                      csv_text(report.key.family),
                                      csv_text(report.key.hardware.name),
                                      csv_text(table.ranges),
                                      csv_text(cell.problem),
                                      csv_text(cell.config),
                                      std::to_string(more.variant),
                                      csv_number(cell.time_us),
                                      csv_number(cell.default_us),
                                      csv_number(cell.best_us),
                                      format("%.6g", cell.regret()),
                                      table.contended ? "1" : "0",
                                      csv_text(report.stored_at),
                                      own == nullptr ? "" : std::to_string(own->stored.workload.id)};
    add_timings(cells, report.key.timing, more.timings, own == nullptr ? "" : own->stored.best_config);
    text += csv_line(cells);
  }
  return text;
}

}  // namespace

Document report_document(const Report& report) {
  Document document = {{"cache", report.cache}, {"workloads", Document::array()}};
  for (const WorkloadReport& one : report.workloads) document["workloads"].push_back(workload_document(one));
  document["hardware"] = Document::array();
  for (const HardwareSection& section : report.hardware) document["hardware"].push_back(section_document(section));
  document["damaged_tables"] = report.damaged_tables;
  document["ranges"] = Document::array();
  for (const RangeReport& one : report.ranges)
    document["ranges"].push_back(range_report_document(one, report.workloads));
  document["next"] = Document::array();
  for (const Advice& advice : report.advice)
    document["next"].push_back({{"command", advice.command}, {"reason", advice.reason}});
  return document;
}

std::string report_csv(const Report& report) {
  std::string text =
      "key,kernel,problem,hardware,origin,config,time_us,low_us,high_us,default_us,speedup,before_us,gain,"
      "roofline,bound,trials,trials_ok,winner,contended,damaged,stale,stored_at,driver,strategy,family";
  text += std::string(kTimingColumns) + "\r\n";
  for (const WorkloadReport& one : report.workloads) text += workload_line(one);
  return text;
}

std::string report_ranges_csv(const Report& report) {
  std::string text =
      "kernel,family,hardware,ranges,problem,config,variant,time_us,default_us,best_us,regret,contended,stored_at,key";
  text += std::string(kTimingColumns) + "\r\n";
  for (const RangeReport& one : report.ranges) {
    if (!one.inherited_by) text += range_lines(one, report.workloads);
  }
  return text;
}

}  // namespace moetune
