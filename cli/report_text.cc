#include "cli/report_text.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "base/lists.h"
#include "base/utf8.h"
#include "cache/winners.h"
#include "cli/pager.h"
#include "cli/search_text.h"
#include "cli/text.h"
#include "kernels/registry.h"
#include "search/outcome.h"

namespace moetune {
namespace {

constexpr std::size_t kFewWorkloads = 8;  // so many with details
constexpr std::size_t kShownParameters = 6;
constexpr std::size_t kShownPairs = 3;
constexpr std::size_t kShownKeys = 8;
constexpr const char* kIndent = "  ";

// Below this a model of the trials says little, and its shares are mostly noise.
constexpr double kPoorModel = 0.25;

struct Columns;

class ReportPrinter {
 public:
  ReportPrinter(const Report& report, std::size_t most_rows, const Output& output)
      : report_(report),
        most_rows_(most_rows == 0 ? report.workloads.size() + report.ranges.size() : most_rows),
        output_(output),
        out_(output.painted()),
        columns_(output.page_columns()),
        colours_(output.colours()) {}

  void heading();
  void section(const HardwareSection& section, bool details);
  void ranges();
  void stale();
  void next();

 private:
  void line(const std::string& text, Paint paint = Paint::none, const std::string& indent = "") const;
  void kernel(const KernelSection& kernel, bool details);
  Table workloads(const KernelSection& kernel, const Columns& columns) const;
  void parameters(const ParameterReport& parameters);
  void details_of(const WorkloadReport& one);

  void left_out(std::size_t rows) const;

  const Report& report_;
  const std::size_t most_rows_;
  const Output& output_;
  std::ostream& out_;
  std::size_t columns_;
  bool colours_;
};

std::string outcomes_text(const std::map<std::string, std::size_t>& outcomes, std::size_t trials) {
  std::string parts, pruned;  // what was pruned was never measured, and is no trial
  for (const auto& [outcome, count] : outcomes) {
    const std::string number = count_text(static_cast<double>(count));
    if (outcome == outcome_name(Outcome::pruned)) {
      pruned = ", and " + number + " pruned";
    } else {
      std::string name = outcome;  // as a search's own lines have it: "too slow"
      std::replace(name.begin(), name.end(), '_', ' ');
      parts += (parts.empty() ? "" : ", ") + number + " " + name;
    }
  }
  return counted_text(static_cast<std::int64_t>(trials), "trial") + (parts.empty() ? "" : " (" + parts + ")") + pruned;
}

// A hostile record may hold texts of any length.
constexpr std::size_t kLongestText = 600;

void add_bounded(Table& table, std::vector<std::string> row, Paint paint = Paint::none) {
  for (std::string& cell : row) cell = fit(cell, kLongestText);
  table.add(std::move(row), paint);
}

std::string ratio_text(double ratio) { return ratio > 0 ? format("%.2f×", ratio) : "-"; }

// Half the interval's width, as a part of the time.
std::string spread_text(const WorkloadReport& one) {
  if (!(one.low_us > 0) || !(one.stored.best_us > 0)) return "-";
  const double spread = 50 * (one.high_us - one.low_us) / one.stored.best_us;
  return format(spread < 0.095 ? "±%.2f%%" : "±%.1f%%", spread);
}

std::string origin_text(const Origin& origin) {
  std::string text = origin.strategy.empty() ? "-" : origin.strategy;
  if (origin.trials) text += " " + std::to_string(*origin.trials);
  return text;
}

std::string notes_text(const WorkloadReport& one) { return joined(workload_notes(one)); }

Paint paint_of(const WorkloadReport& one) {
  if (!one.stored.damage.empty()) return Paint::bad;
  return one.stored.contended || !one.stale.empty() ? Paint::warning : Paint::none;
}

std::string best_text(const WorkloadReport& one) {
  const StoredResult& stored = one.stored;
  return time_text(stored.best_us) + (stored.winner || stored.best_us == 0 ? "" : "*") + (stored.contended ? "!" : "");
}

void ReportPrinter::line(const std::string& text, Paint paint, const std::string& indent) const {
  const std::string safe = escape_controls(fit(text, kLongestText), LineEnds::escaped);
  const std::size_t width = std::max(columns_, indent.size() + 1) - indent.size();
  for (const std::string& piece : columns_ == 0 ? std::vector<std::string>{safe} : wrapped(safe, width))
    out_ << indent << painted(piece, paint, colours_) << "\n";
}

void ReportPrinter::heading() {
  std::size_t trials = 0, folded = 0;
  for (const WorkloadReport& one : report_.workloads) {
    trials += one.stored.trials;
    folded += one.folded_into != 0;
  }
  const auto shown = static_cast<std::int64_t>(report_.workloads.size() - folded);
  line(counted_text(shown, "workload") +
           (folded > 0 ? ", " + counted_text(static_cast<std::int64_t>(folded), "shape") + " of range tables" : "") +
           ", " + counted_text(static_cast<std::int64_t>(trials), "trial") + " in " + report_.cache,
       Paint::faint);
}

void ReportPrinter::section(const HardwareSection& section, bool details) {
  std::string title = fit(hardware_title(section.hardware), 120);
  std::string facts;
  const auto add = [&](const std::string& fact) { facts += (facts.empty() ? "" : ", ") + fact; };
  if (section.hardware.sm_count > 0) add(std::to_string(section.hardware.sm_count) + " SMs");
  if (section.ceilings.read_tb_s) add("reads " + rate_text({*section.ceilings.read_tb_s, Unit::tb_s}));
  if (!section.hardware.driver.empty()) add("driver " + section.hardware.driver);
  out_ << "\n";
  line(title + (facts.empty() ? "" : ": " + facts), Paint::heading);
  std::string machine;
  for (const CeilingFigure& figure : kCeilingFigures) {
    const std::optional<double>& value = section.ceilings.*figure.value;
    if (figure.of_machine && value)
      machine += (machine.empty() ? "" : "; ") + std::string(figure.title) + " " + ceiling_text(figure, *value);
  }
  if (details && !machine.empty()) out_ << paragraph(machine, columns_);
  for (const KernelSection& kernel : section.kernels) this->kernel(kernel, details);
}

// Optional columns of a table of workloads, by need and by the room there is.
struct Columns {
  bool before = false, roofline = false, age = false, search = false, notes = false;
};

std::string search_text(const WorkloadReport& one) { return one.stored.winner ? origin_text(one.origin) : "-"; }

std::vector<std::string> header_row(const Columns& columns) {
  std::vector<std::string> row = {"key", "best", "95%", "default"};
  if (columns.before) row.push_back("before");
  if (columns.roofline) row.push_back("roofline");
  if (columns.age) row.push_back("age");
  row.push_back("problem");
  if (columns.search) row.push_back("search");
  if (columns.notes) row.push_back("notes");
  return row;
}

std::vector<std::string> workload_row(const WorkloadReport& one, const std::string& problem, const std::string& age,
                                      const Columns& columns) {
  std::vector<std::string> row = {std::to_string(one.stored.workload.id), best_text(one), spread_text(one),
                                  ratio_text(one.stored.speedup())};
  if (columns.before) row.push_back(ratio_text(one.gain()));
  if (columns.roofline) row.push_back(percent_text(one.stored.roofline));
  if (columns.age) row.push_back(age);
  row.push_back(problem.empty() ? "-" : problem);
  if (columns.search) row.push_back(search_text(one));
  if (columns.notes) row.push_back(notes_text(one));
  return row;
}

Table ReportPrinter::workloads(const KernelSection& kernel, const Columns& columns) const {
  const std::vector<std::string> header = header_row(columns);
  std::vector<std::size_t> right;
  for (std::size_t c = 0; header[c] != "problem"; ++c) right.push_back(c);
  Table table(header, right);
  for (std::size_t row = 0; row < std::min(kernel.workloads.size(), most_rows_); ++row) {
    const WorkloadReport& one = report_.workloads[kernel.workloads[row]];
    const WorkloadKey& key = one.key();
    const std::string problem =
        output_.is_wide() || key.problem.empty() ? key.problem : brief_problem(key.kernel, key.problem);
    add_bounded(table, workload_row(one, problem, age_text(one.stored_at, report_.now), columns), paint_of(one));
  }
  return table;
}

void ReportPrinter::kernel(const KernelSection& kernel, bool details) {
  std::map<std::string, std::size_t> outcomes;
  std::size_t trials = 0;
  Columns columns;  // those that say something of any workload
  for (const std::size_t i : kernel.workloads) {
    const WorkloadReport& one = report_.workloads[i];
    for (const auto& [outcome, count] : one.stored.outcomes) outcomes[outcome] += count;
    trials += one.stored.trials;
    columns.before |= one.before.has_value();
    columns.roofline |= one.stored.roofline > 0;
    columns.age |= age_text(one.stored_at, report_.now) != "-";
    columns.search |= search_text(one) != "-";
    columns.notes |= !notes_text(one).empty();
  }
  out_ << "\n";
  line(fit(kernel.kernel, 120) + ": " + outcomes_text(outcomes, trials), Paint::heading);

  // On a narrow screen the problem stays readable: what --details has too gives way.
  Table table = workloads(kernel, columns);
  table.give_way({"search", "age"}, kIndent, columns_);
  if (!kernel.workloads.empty()) out_ << table.text(kIndent, columns_, colours_);
  left_out(kernel.workloads.size());
  if (details) {
    for (const std::size_t i : kernel.workloads) details_of(report_.workloads[i]);
  }
  parameters(kernel.parameters);
}

void ReportPrinter::left_out(std::size_t rows) const {
  if (rows <= most_rows_) return;
  line(format("and %s more; --limit N shows N, --html, --csv and --json all",
              count_text(static_cast<double>(rows - most_rows_)).c_str()),
       Paint::faint, kIndent);
}

std::string earlier_text(const WorkloadReport& one) {
  const EarlierWinner& before = *one.before;
  std::string text = time_text(before.time_us) + ", stored " + before.stored_at;
  if (before.reason.empty()) text += ", of other templates or another compiler";
  if (one.gain() > 0) text += format("; today's is %.2f× as fast", one.gain());
  return text;
}

void ReportPrinter::details_of(const WorkloadReport& one) {
  const StoredResult& stored = one.stored;
  Table lines({});
  if (!one.key().problem.empty()) add_bounded(lines, {"problem", one.key().problem});
  if (!stored.best_config.empty()) add_bounded(lines, {"config", stored.best_config});
  if (!stored.bound.empty()) add_bounded(lines, {"bound by", stored.bound + ", " + rate_text(stored.rate())});
  add_bounded(lines, {"timing", std::string(timing_name(one.key().timing))});
  if (const std::vector<TimingResult> timings = one.timings(); !timings.empty())
    add_bounded(lines, {"timings", timings_line(timings_document(timings, stored.best_config))});
  if (one.before) add_bounded(lines, {"before", earlier_text(one)});
  if (const std::string search = search_text(one); search != "-") add_bounded(lines, {"search", search});
  if (!one.origin.device.empty())
    add_bounded(lines,
                {"measured", one.origin.device + (one.origin.driver.empty() ? "" : ", driver " + one.origin.driver) +
                                 ", " + (one.stored_at.empty() ? "-" : one.stored_at)});
  if (stored.is_provisional())
    add_bounded(lines, {"provisional", "its search was interrupted; the same command goes on"}, Paint::warning);
  if (stored.contended)
    add_bounded(lines, {"contended", "measured while somebody else used the GPU; search again when it is quiet"},
                Paint::warning);
  for (const std::string& reason : one.stale) add_bounded(lines, {"stale", reason}, Paint::warning);
  add_bounded(lines, {"trials", outcomes_text(stored.outcomes, stored.trials)});
  out_ << "\n";
  line("workload " + std::to_string(stored.workload.id), Paint::faint, "  ");
  out_ << lines.text("    ", columns_, colours_);
}

std::string bar(double share) {
  constexpr double kWidth = 24;
  std::string text;
  for (double at = 0.5; at < share * kWidth; at += 1) text += "█";
  return text;
}

void ReportPrinter::parameters(const ParameterReport& parameters) {
  if (parameters.trials == 0 || parameters.importance.main.empty()) return;
  out_ << "\n";
  const double explained = std::max(parameters.importance.explained, 0.0);
  line(format("Parameters by their share of the variance (%s timed trials; a model explains %.0f%% of it%s)",
              count_text(static_cast<double>(parameters.trials)).c_str(), 100 * explained,
              explained < kPoorModel ? ": do not rely on these shares" : ""),
       Paint::faint, kIndent);
  Table table({}, {1});
  std::size_t shown = 0;
  for (const MainEffect& effect : parameters.importance.main) {
    if (shown++ == kShownParameters) break;
    add_bounded(table, {parameters.factors[effect.factor].name, percent_text(effect.share), bar(effect.share)});
  }
  shown = 0;
  for (const Interaction& pair : parameters.importance.pairs) {
    if (shown++ == kShownPairs || pair.share < 0.01) break;
    add_bounded(table, {parameters.factors[pair.first].name + " with " + parameters.factors[pair.second].name,
                        percent_text(pair.share), bar(pair.share)});
  }
  out_ << table.text("    ", columns_, colours_);
}

void ReportPrinter::ranges() {
  if (report_.ranges.empty()) return;
  const auto percent = [](double regret) { return format("%.1f%%", 100 * regret); };
  out_ << "\n";
  line("Ranges: how much slower than its best a shape is served", Paint::heading);
  Table table({"kernel", "over", "cells", "cubins", "regret", "measured on"}, {2, 3});
  for (std::size_t row = 0; row < std::min(report_.ranges.size(), most_rows_); ++row) {
    const RangeReport& one = report_.ranges[row];
    const RangeCertificate& seen = one.table.certificate;
    std::string loss = percent(one.table.worst_cell()) + " in the worst cell";
    if (!one.table.kept) loss += " (bound " + percent(one.table.bound) + ")";
    if (seen.shapes > 0)
      loss += format("; %zu unseen: ", seen.shapes) + percent(seen.median) + " median, " + percent(seen.p95) +
              " p95, " + percent(seen.worst) + " worst";
    std::string where = hardware_title(one.key.hardware) + ", " + std::string(timing_name(one.key.timing));
    if (one.inherited_by) where += "; inherited by " + one.inherited_by->name;
    if (one.folded > 0 && !one.inherited_by)
      where += "; " + counted_text(static_cast<std::int64_t>(one.folded), "shape") + " searched for it";
    if (one.table.contended) where += "; contended: not served";
    add_bounded(table,
                {one.key.kernel, one.table.ranges, std::to_string(one.table.cells.size()), std::to_string(one.cubins),
                 loss, where},
                one.table.contended ? Paint::warning : Paint::none);
  }
  out_ << table.text("  ", columns_, colours_);
  left_out(report_.ranges.size());
}

void ReportPrinter::stale() {
  std::map<std::string, std::vector<std::int64_t>> reasons;
  for (const WorkloadReport& one : report_.workloads) {
    for (const std::string& reason : one.stale) reasons[reason].push_back(one.stored.workload.id);
  }
  if (reasons.empty()) return;
  out_ << "\n";
  line("Stale", Paint::heading);
  Table table({});
  for (const auto& [reason, keys] : reasons) {
    std::string text =
        keys.size() == 1 ? "workload " : counted_text(static_cast<std::int64_t>(keys.size()), "workload") + ": ";
    text += joined(std::views::take(keys, kShownKeys), ", ", [](std::int64_t key) { return std::to_string(key); });
    if (keys.size() > kShownKeys) text += ", …";
    add_bounded(table, {reason, text});
  }
  out_ << table.text("  ", columns_, colours_);
}

void ReportPrinter::next() {
  if (report_.advice.empty()) return;
  out_ << "\n";
  line("Worth running next", Paint::heading);
  for (const Advice& advice : report_.advice) {
    // A command is to be copied: it is never broken.
    out_ << "  " << painted(escape_controls(advice.command, LineEnds::escaped), Paint::good, colours_) << "\n";
    line(advice.reason, Paint::faint, "    ");
  }
}

}  // namespace

void print_report(const Report& report, Details details, std::size_t most_rows, const Output& output) {
  ReportPrinter printer(report, most_rows, output);
  const Pager pager(output);
  const auto shown = std::ranges::count(report.workloads, 0, &WorkloadReport::folded_into);
  const bool all = details == Details::always || static_cast<std::size_t>(shown) <= kFewWorkloads;
  printer.heading();
  for (const HardwareSection& section : report.hardware) printer.section(section, all);
  printer.ranges();
  printer.stale();
  printer.next();
  if (!all) output.result() << "\n`--details`, or `moetune cache show KEY`, has the configurations.\n";
}

}  // namespace moetune
