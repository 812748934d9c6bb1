// `moetune cache complete`: the cubins of today's defaults that range tables lack.
#include "cli/cache_actions.h"
#include "cli/command.h"
#include "cli/text.h"
#include "jobs/range/complete.h"

namespace moetune {
namespace {

Document document_of(const CompletedTable& table) {
  return {{"table", "table:" + std::to_string(table.range.id)},
          {"kernel", table.range.key.kernel},
          {"family", table.range.key.family},
          {"hardware", table.range.key.hardware.name},
          {"defaults", table.defaults},
          {"added", table.added},
          {"refused", table.refused},
          {"left_out", table.left_out.empty() ? Document(nullptr) : Document(table.left_out)}};
}

}  // namespace

int complete_cache(const CacheArguments& arguments, Cache& cache, Output& output) {
  Document tables = Document::array();
  std::size_t added = 0, incomplete = 0;
  const auto each = [&](const CompletedTable& table) {
    const std::string place = place_of(table.range);
    added += table.added.size();
    incomplete += !table.left_out.empty() || !table.refused.empty() ? 1 : 0;
    if (!table.left_out.empty()) output.warn(place + " is left as it is: " + table.left_out);
    for (const std::string& why : table.refused) output.warn(place + ": " + why);
    if (!table.added.empty())
      output.result() << place << ": " << counted_text(table.added.size(), "cubin") << " compiled\n";
    tables.push_back(document_of(table));
  };
  complete_tables(cache, each, arguments.stop);
  if (arguments.stop.stop_requested()) output.note("stopped; the same command goes on from here");
  output.result() << cache.path().string() << ": " << counted_text(tables.size(), "range table") << ", "
                  << counted_text(added, "cubin") << " of today's defaults added\n";
  output.document({{"cache", cache.path().string()}, {"added", added}, {"tables", std::move(tables)}});
  return incomplete > 0 ? kNothingFound : kDone;
}

}  // namespace moetune
