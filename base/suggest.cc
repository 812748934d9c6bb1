#include "base/suggest.h"

#include <algorithm>
#include <numeric>

#include "base/lists.h"
#include "base/utf8.h"

namespace moetune {
namespace {

constexpr std::size_t kLongestQuote = 100;

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view wanted, const std::vector<std::string>& names) {
  const std::size_t allowed = std::max<std::size_t>(2, wanted.size() / 3);
  std::vector<std::pair<std::size_t, std::size_t>> ranked;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool prefix = wanted.size() >= 3 && names[i].starts_with(wanted);
    const std::size_t distance = prefix ? 1 : edit_distance(wanted, names[i]);
    if (distance <= allowed) ranked.emplace_back(distance, i);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> nearest;
  for (const auto& [distance, index] : ranked) {
    if (nearest.size() < 3) nearest.push_back(names[index]);
  }
  return nearest;
}

std::string unknown_name(std::string_view kind, std::string_view wanted, const std::vector<std::string>& names) {
  const std::vector<std::string> nearest = nearest_names(wanted, names);
  const std::string unknown = "unknown " + std::string(kind) + " '" + shortened(wanted, kLongestQuote) + "'; ";
  if (nearest.empty()) return unknown + "known: " + joined(names);
  const auto quoted = [](const std::string& name) { return "'" + name + "'"; };
  return unknown + "did you mean " + enumerated(gathered(nearest, quoted), " or ") + "?";
}

}  // namespace moetune
