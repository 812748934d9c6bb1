#include "cli/tuned_text.h"

#include "cli/text.h"

namespace moetune {
namespace {

std::string result_of(const TunedPoint& tuned) {
  switch (tuned.state) {
    case TunedState::already:
      return "was tuned before";
    case TunedState::left_out:
      return "left out: " + tuned.why;
    case TunedState::nothing_valid:
      return "nothing valid was found";
    case TunedState::not_reached:
      return "not reached";
    case TunedState::tuned:
      break;
  }
  const TuneResult& tune = tuned.search->tune;
  std::string text = time_text(tune.best->result.measurement.median_us);
  if (tune.baseline && has_time(tune.baseline->result.outcome))
    text += format("  %.2f× the default's speed",
                   tune.baseline->result.measurement.median_us / tune.best->result.measurement.median_us);
  return text + (tune.best->result.contended ? "  (contended)" : "");
}

std::string range_text(const TunedRange& tuned) {
  if (tuned.state == TunedState::left_out) return "left out: " + tuned.why;
  if (tuned.state == TunedState::nothing_valid) return "nothing valid was found";
  const RangeResult& found = *tuned.result;
  std::string text = format("%zu of %zu cells, %zu cubins, regret %.1f%% at worst", found.table.cells.size(),
                            found.planned, found.cubins.size(), 100 * found.table.worst_cell());
  if (const RangeCertificate& seen = found.table.certificate; seen.shapes > 0)
    text +=
        format("; %zu unseen shapes: %.1f%% median, %.1f%% worst", seen.shapes, 100 * seen.median, 100 * seen.worst);
  if (tuned.state == TunedState::already) text += "; was tuned before";
  if (found.out_of_time) text += "; its time was over";
  return text + (found.table.contended ? "  (contended)" : "");
}

}  // namespace

std::string tuned_text(const TunedPoint& tuned, const Output& output) {
  return tuned.point.kernel + " " + shown_problem(tuned.point.kernel, tuned.point.problem, output) + ": " +
         result_of(tuned);
}

std::string tuned_text(const TunedRange& tuned) {
  return tuned.range.kernel + " " + tuned.range.over + ": " + range_text(tuned);
}

}  // namespace moetune
