#include "jobs/range_relatives.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "ranges/range_table.h"

namespace moetune {
namespace {

using Shares = std::map<std::string, double>;  // of the cells of its table, by cubin
constexpr double kOwnFamily = 1000;            // goes before any number of others

Shares shares_of(const RangeTable& table, const Space& space, const CellMeter& meter) {
  Shares shares;
  for (const RangeCell& cell : table.cells)
    shares[meter.cubin_of(space.parse_config(cell.config))] += 1.0 / static_cast<double>(table.cells.size());
  return shares;
}

}  // namespace

std::vector<std::string> cubins_of_relatives(const Cache& cache, const RangeKey& key, const Space& space,
                                             const CellMeter& meter) {
  Shares all;
  for (const FamilyRange& range : cache.ranges()) {
    if (range.key == key || range.key.kernel != key.kernel || range.key.timing != key.timing ||
        range.key.hardware.text() != key.hardware.text())
      continue;
    try {
      const RangeTable table = RangeTable::parse(range.table, "a stored range table");
      if (table.contended) continue;
      const double weight = range.key.family == key.family ? kOwnFamily : 1;
      for (const auto& [cubin, share] : shares_of(table, space, meter)) all[cubin] += weight * share;
    } catch (const BadInput&) {  // damaged, or of a space that was another
    }
  }
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [cubin, share] : all) order.emplace_back(share, cubin);
  std::ranges::sort(order, std::greater());
  std::vector<std::string> names;
  for (auto& [share, cubin] : order) {
    if (names.size() < kMostRelatives) names.push_back(std::move(cubin));
  }
  return names;
}

}  // namespace moetune
