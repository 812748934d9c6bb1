#include "cli/range_search.h"

#include <chrono>
#include <cmath>
#include <map>

#include "base/error.h"
#include "cli/command.h"
#include "cli/event_text.h"
#include "cli/progress.h"
#include "cli/text.h"

namespace moetune {
namespace {

using LineClock = std::chrono::steady_clock;

constexpr int kMostDigits = 6;  // of a percentage, after the point

// percent_text() has no zero, which here is the best there is.
std::string regret_text(double regret, int digits = 1) { return format("%.*f%%", digits, regret * 100); }

// Digits after the point that show a bound as it was asked for.
int digits_of_bound(double bound) {
  const auto is_whole = [](double value) { return std::abs(value - std::round(value)) < 1e-6; };
  int digits = 1;
  for (double tenths = bound * 1000; digits < kMostDigits && !is_whole(tenths); tenths *= 10) ++digits;
  return digits;
}

// One line a report on a terminal that can redraw it, else one every ten seconds and at each new stage.
class RangeLine {
 public:
  explicit RangeLine(const Output& output) : output_(output), redraws_(stderr_redraws()) {}
  ~RangeLine() { erase(); }

  void handle(const Event& event) {
    if (const auto* advanced = std::get_if<RangeAdvanced>(&event.what)) return show(*advanced);
    if (std::holds_alternative<SearchStarted>(event.what)) return;  // one of many
    if (!note_of(event).empty()) {
      erase();
      say(event, output_);
    }
  }

 private:
  void show(const RangeAdvanced& advanced) {
    const auto now = LineClock::now();
    const bool is_due = redraws_ || advanced.stage != stage_ || now - last_ >= std::chrono::seconds(10);
    if (!is_due) return;
    stage_ = advanced.stage;
    last_ = now;
    const double elapsed = std::chrono::duration<double>(now - begin_).count();
    std::string text = std::string(advanced.stage) + format(" %zu/%zu", advanced.done, advanced.planned) +
                       "  " + counted_text(static_cast<std::int64_t>(advanced.cubins), "cubin") +
                       "  worst regret " + regret_text(advanced.worst_regret) + "  " +
                       duration_text(elapsed) + " so far";
    if (advanced.seconds_left > 0) text += ", " + duration_text(advanced.seconds_left) + " left";
    if (!redraws_) return output_.note(text);
    output_.terminal() << "\r\033[K" << fit(text, 97) << std::flush;
    drawn_ = true;
  }

  void erase() {
    if (drawn_) output_.terminal() << "\r\033[K" << std::flush;
    drawn_ = false;
  }

  const Output& output_;
  const bool redraws_;
  bool drawn_ = false;
  std::string stage_;
  LineClock::time_point begin_ = LineClock::now(), last_ = begin_;
};

std::string certificate_line(const RangeCertificate& seen) {
  if (seen.shapes == 0) return "no shape outside of the grid was measured";
  return counted_text(static_cast<std::int64_t>(seen.shapes), "unseen shape") + ": regret " +
         regret_text(seen.median) + " median, " + regret_text(seen.p95) + " p95, " + regret_text(seen.worst) +
         " worst; " +
         (seen.worst_to_default > 0 ? regret_text(seen.worst_to_default) + " slower than the default at worst"
                                    : "never slower than the default") +
         (seen.failed > 0 ? "; its choice failed at " +
                                counted_text(static_cast<std::int64_t>(seen.failed), "further shape")
                          : "");
}

// How many of the searched cells would have another winner if launches followed each other otherwise.
std::string differing_cells(const std::vector<RangeWinner>& winners) {
  std::map<Timing, std::size_t> differing;
  std::size_t known = 0;
  for (const RangeWinner& winner : winners) {
    known += !winner.timings.empty();
    for (const Timing timing : differing_timings(winner.timings, winner.config)) ++differing[timing];
  }
  if (known == 0) return "";
  std::string text = counted_text(static_cast<std::int64_t>(known), "searched cell") + " under all timings: ";
  if (differing.empty()) return text + "the same winners";
  std::string list;
  for (const auto& [timing, count] : differing)
    list += (list.empty() ? "" : ", ") + format("%zu", count) + " with another winner " +
            std::string(timing_name(timing));
  return text + list;
}

// `variants`: how many cubins the table might have.
void print_range(const RangeResult& result, std::size_t variants, const Output& output) {
  const RangeTable& found = result.table;
  Table table({});
  table.add({"family", result.family});
  table.add({"over", result.ranges});
  table.add(
      {"device", result.subject.device.key.name + (result.subject.device.recorded ? ", recorded" : "")});
  table.add({"timing", std::string(timing_name(result.timing))});
  std::string cells =
      format("%zu measured of %zu", found.cells.size() + result.left_to_neighbours, result.planned);
  if (result.left_to_neighbours > 0)
    cells += format("; in %zu no cubin keeps up with the default, and their neighbours serve",
                    result.left_to_neighbours);
  table.add({"cells", cells});
  if (result.expected > 0)
    table.add({"between", format("%zu points, each with the choice that a model of the trials expects",
                                 result.expected)});
  for (const std::string& cubin : result.cubins) table.add({"cubin", cubin});
  table.add({"regret", worst_regret_text(found, result.cubins.size() >= variants)});
  table.add({"certificate", certificate_line(found.certificate)});
  if (const std::string text = differing_cells(result.winners); !text.empty()) table.add({"timings", text});
  if (found.contended) table.add({"contended", "somebody else used the GPU: no server uses this table"});
  if (result.out_of_time) {
    table.add({"ended early", "the time was over (--time); the same command goes on"});
  } else if (found.cells.empty() && !result.interrupted) {
    table.add({"ended early", "the cells that were searched have no valid configuration"});
  }
  table.add({"time", duration_text(result.wall_s)});
  table.add({"cache", result.subject.cache});
  output.result() << result.subject.kernel << "\n" << table.text("  ", output.columns());
}

}  // namespace

std::string worst_regret_text(const RangeTable& table, bool has_all_cubins) {
  const int digits = digits_of_bound(table.bound);
  const char* const missed = has_all_cubins ? ", which so few cubins do not keep)" : ", which is not kept)";
  return regret_text(table.worst_cell(), digits) + " in the worst cell (bound " +
         regret_text(table.bound, digits) + (table.kept ? ")" : missed);
}

void declare_range(OptionTable& table, RangeOptions& options) {
  table.text("over", "RANGES", options.over,
             "instead of one problem: a table for batch=1..256,context=512..128k, as few cubins as serve it");
  table.percent("regret", options.regret_percent,
                "with --over: how much slower than its best a cell may be served");
  table.whole("variants", options.variants, 1, 64, "with --over: cubins at most");
  table.whole("shapes", options.shapes, 0, 1000,
              "with --over: unseen shapes that the table is checked on at the end");
  table.whole("shape-budget", options.shape_budget, 1, 100000,
              "with --over: trials of an unseen shape's own search, which the table is compared with");
  table.only_with("over", {"regret", "variants", "shapes", "shape-budget"});
}

int search_over(const RangeOptions& options, const SearchRequest& search, const RemoteOptions& remote,
                Output& output, std::stop_token stop) {
  RangeRequest request{.target = search.target, .over = options.over, .settings = search.settings};
  request.settings.time_budget_s = 0;
  request.time_s = search.settings.time_budget_s;
  request.regret = options.regret_percent / 100;
  request.variants = options.variants;
  request.certificate_shapes = options.shapes;
  request.shape_budget = options.shape_budget;
  request.no_compile = search.no_compile;
  request.threads = search.threads;
  std::optional<RangeResult> result;
  Document document;
  {
    RangeLine line(output);
    const JobContext context{.events = {.listener = [&](const Event& event) { line.handle(event); }},
                             .stop = stop};
    result = remote.server.empty() ? search_range(request, context)
                                   : remote_range(remote, request, context, document);
  }
  if (!remote.server.empty() && document.is_null()) {
    output.note("Interrupted; the job is withdrawn.");
    return kNothingFound;
  }
  if (remote.server.empty()) document = range_document(request, *result);
  print_range(*result, request.variants, output);
  if (result->interrupted) output.note("Interrupted; the same command continues from there.");
  for (const std::string& problem : result->left_out) output.warn("Left out: " + problem);
  output.document(document);
  return result->table.cells.empty() ? kNothingFound : kDone;
}

}  // namespace moetune
