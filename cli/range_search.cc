#include "cli/range_search.h"

#include <chrono>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/json_fields.h"
#include "cli/command.h"
#include "cli/event_text.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "jobs/range/job.h"
#include "serve/run/job_request.h"

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
    std::string text = std::string(advanced.stage) + format(" %zu/%zu", advanced.done, advanced.planned) + "  " +
                       counted_text(static_cast<std::int64_t>(advanced.cubins), "cubin") + "  worst regret " +
                       regret_text(advanced.worst_regret) + "  " + duration_text(elapsed) + " so far";
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

std::string certificate_line(const Document& seen) {
  const auto regret = [&](const char* name) { return regret_text(figure_field(seen, name)); };
  const auto shapes = static_cast<std::int64_t>(count_field(seen, "shapes")),
             failed = static_cast<std::int64_t>(count_field(seen, "failed"));
  if (shapes == 0) return "no shape outside of the grid was measured";
  return counted_text(shapes, "unseen shape") + ": regret " + regret("median") + " median, " + regret("p95") +
         " p95, " + regret("worst") + " worst; " +
         (figure_field(seen, "worst_to_default") > 0 ? regret("worst_to_default") + " slower than the default at worst"
                                                     : "never slower than the default") +
         (failed > 0 ? "; its choice failed at " + counted_text(failed, "further shape") : "");
}

// How many of the searched cells would have another winner if launches followed each other otherwise.
std::string differing_cells(const Document& winners) {
  std::map<std::string, std::size_t> differing;
  std::size_t known = 0;
  for (const Document& winner : winners) {
    const Document& timings = field(winner, "timings");
    known += timings.is_object();
    for (const Document& timing : field(timings, "differs"))
      if (timing.is_string()) ++differing[timing.get<std::string>()];
  }
  if (known == 0) return "";
  std::string text = counted_text(static_cast<std::int64_t>(known), "searched cell") + " under all timings: ";
  if (differing.empty()) return text + "the same winners";
  std::string list;
  for (const Timing timing : kTimings) {
    const std::string name(timing_name(timing));
    if (differing.contains(name))
      list += (list.empty() ? "" : ", ") + format("%zu", differing[name]) + " with another winner " + name;
  }
  return text + list;
}

// `found`: range_document(), of this process or of a service. `variants`: how many cubins the table might have.
void print_range(const Document& found, std::size_t variants, const Output& output) {
  const Document &device = field(found, "device"), &cubins = field(found, "cubins");
  const std::size_t left = count_field(found, "left_to_default"), cells = field(found, "cells").size();
  Table table({});
  table.add({"family", text_field(found, "family")});
  table.add({"over", text_field(found, "over")});
  table.add({"device", text_field(device, "name") + (flag_field(device, "recorded") ? ", recorded" : "")});
  table.add({"timing", text_field(found, "timing")});
  std::string measured = format("%zu measured of %zu", cells, count_field(found, "planned"));
  if (left > 0) measured += format("; in %zu the default serves", left);
  table.add({"cells", measured});
  for (const Document& cubin : cubins)
    if (cubin.is_string()) table.add({"cubin", cubin.get<std::string>()});
  table.add({"regret", worst_regret_text(found, cubins.size() >= variants)});
  table.add({"certificate", certificate_line(field(found, "certificate"))});
  if (const std::string text = differing_cells(field(found, "winners")); !text.empty()) table.add({"timings", text});
  if (flag_field(found, "contended")) table.add({"contended", "somebody else used the GPU: no server uses this table"});
  if (flag_field(found, "out_of_time")) {
    table.add({"ended early", "the time was over (--time); the same command goes on"});
  } else if (cells == 0 && !flag_field(found, "interrupted")) {
    table.add({"ended early", "the cells that were searched have no valid configuration"});
  }
  table.add({"time", duration_text(figure_field(found, "wall_s"))});
  table.add({"cache", text_field(found, "cache")});
  output.result() << text_field(found, "kernel") << "\n" << table.text("  ", output.columns());
}

}  // namespace

std::string worst_regret_text(const Document& found, bool has_all_cubins) {
  const double bound = figure_field(found, "bound");
  const int digits = digits_of_bound(bound);
  const char* const missed = has_all_cubins ? ", which so few cubins do not keep)" : ", which is not kept)";
  return regret_text(figure_field(found, "worst_regret"), digits) + " in the worst cell (bound " +
         regret_text(bound, digits) + (flag_field(found, "kept") ? ")" : missed);
}

void declare_range(OptionTable& table, RangeOptions& options) {
  table.text("over", "RANGES", options.over,
             "instead of one problem: a table for batch=1..256,context=512..128k, as few cubins as serve it");
  table.percent("regret", options.regret_percent, "with --over: how much slower than its best a cell may be served");
  table.whole("variants", options.variants, 1, 64, "with --over: cubins at most, beside those of defaults");
  table.whole("shapes", options.shapes, 0, 1000, "with --over: unseen shapes that the table is checked on at the end");
  table.whole("shape-budget", options.shape_budget, 1, 100000,
              "with --over: trials of an unseen shape's own search, which the table is compared with");
  table.only_with("over", {"regret", "variants", "shapes", "shape-budget"});
}

int search_over(const RangeOptions& options, const SearchRequest& search, const RemoteOptions& remote, Output& output,
                std::stop_token stop) {
  RangeRequest request{.target = search.target, .over = options.over, .settings = search.settings};
  request.settings.time_budget_s = 0;
  request.time_s = search.settings.time_budget_s;
  request.regret = options.regret_percent / 100;
  request.variants = options.variants;
  request.certificate_shapes = options.shapes;
  request.shape_budget = options.shape_budget;
  request.no_compile = search.no_compile;
  request.threads = search.threads;
  Document found;
  {
    RangeLine line(output);
    const JobContext context{.events = {.listener = [&](const Event& event) { line.handle(event); }}, .stop = stop};
    found =
        remote.server.empty()
            ? range_document(request, search_range(request, context))
            : remote_job(remote, "range", range_fields(request), request.target.cache, request.threads, context).result;
  }
  if (found.is_null()) {
    output.note("Interrupted; the job is withdrawn.");
    return kNothingFound;
  }
  print_range(found, request.variants, output);
  if (flag_field(found, "interrupted")) output.note("Interrupted; the same command continues from there.");
  for (const Document& problem : field(found, "left_out"))
    if (problem.is_string()) output.warn("Left out: " + problem.get<std::string>());
  output.document(found);
  return field(found, "cells").empty() ? kNothingFound : kDone;
}

}  // namespace moetune
