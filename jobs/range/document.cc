#include "jobs/range/job.h"

namespace moetune {

Document range_document(const RangeRequest& request, const RangeResult& result) {
  Document cells = Document::array();
  for (const RangeCell& cell : result.table.cells) {
    cells.push_back({{"problem", cell.problem},
                     {"config", cell.config},
                     {"time_us", cell.time_us},
                     {"default", cell.default_config},
                     {"default_us", number_or_null(cell.default_us)},
                     {"regret", cell.regret()}});
  }
  Document unseen = Document::array();
  for (const UnseenShape& shape : result.unseen) {
    unseen.push_back({{"problem", shape.problem},
                      {"pick", shape.pick},
                      {"best", shape.best},
                      {"pick_us", shape.pick_us},
                      {"best_us", shape.best_us},
                      {"default_us", number_or_null(shape.default_us)},
                      {"failed", shape.failed}});
  }
  Document winners = Document::array();
  for (const RangeWinner& winner : result.winners) {
    winners.push_back({{"problem", winner.problem},
                       {"config", winner.config},
                       {"timings", timings_document(winner.timings, winner.config)}});
  }
  return {{"kernel", result.subject.kernel},
          {"family", result.family},
          {"over", result.ranges},
          {"device", device_document(result.subject.device)},
          {"planned", result.planned},
          {"left_to_default", result.left_to_default},
          {"left_out", result.left_out},
          {"timing", timing_name(result.timing)},
          {"bound", request.regret},
          {"kept", result.table.kept},
          {"worst_regret", result.table.worst_cell()},
          {"cubins", result.cubins},
          {"certificate", certificate_document(result.table.certificate)},
          {"unseen", std::move(unseen)},
          {"cells", std::move(cells)},
          {"winners", std::move(winners)},
          {"contended", result.table.contended},
          {"stored", result.stored},
          {"interrupted", result.interrupted},
          {"out_of_time", result.out_of_time},
          {"cache", result.subject.cache},
          {"wall_s", result.wall_s}};
}

}  // namespace moetune
