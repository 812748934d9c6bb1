#include "report/factors.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "base/lists.h"
#include "search/assignment.h"

namespace moetune {
namespace {

constexpr std::size_t kLongestConfig = 8192;

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::optional<Pairs> readable(const std::string& config) {
  if (config.empty() || config.size() > kLongestConfig) return std::nullopt;
  try {
    Pairs pairs = split_assignment(config, "a configuration");
    if (pairs.size() > kMostFactors) return std::nullopt;
    return pairs;
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

std::string signature(const Pairs& pairs) {
  std::string names;
  for (const auto& [name, value] : pairs) names += name + ",";
  return names;
}

std::optional<std::int64_t> as_number(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

// Numbers first.
bool level_before(const std::string& a, const std::string& b) {
  const std::optional<std::int64_t> left = as_number(a), right = as_number(b);
  return std::tuple(!left, left.value_or(0), a) < std::tuple(!right, right.value_or(0), b);
}

// The signature of most texts; the first of them if several have as many.
std::string commonest(const std::vector<std::optional<Pairs>>& texts) {
  std::map<std::string, std::size_t> counts;
  for (const auto& pairs : texts) {
    if (pairs) ++counts[signature(*pairs)];
  }
  const auto most = std::ranges::max_element(counts, [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? "" : most->first;
}

}  // namespace

Factors factors_of(const std::vector<std::string>& configs) {
  std::vector<std::optional<Pairs>> texts = gathered(configs, readable);
  const std::string names = commonest(texts);

  Factors result;
  std::vector<std::unordered_map<std::string, Level>> places;  // of each factor's levels
  for (auto& pairs : texts) {
    if (pairs && signature(*pairs) != names) pairs.reset();
    if (!pairs) continue;
    result.factors.resize(pairs->size());
    places.resize(pairs->size());
    for (std::size_t f = 0; f < pairs->size(); ++f) {
      const auto& [name, value] = (*pairs)[f];
      Factor& factor = result.factors[f];
      factor.name = name;
      if (factor.levels.size() < kMostLevels && places[f].try_emplace(value).second) factor.levels.push_back(value);
    }
  }
  for (std::size_t f = 0; f < places.size(); ++f) {
    Factor& factor = result.factors[f];
    std::sort(factor.levels.begin(), factor.levels.end(), level_before);
    for (std::size_t l = 0; l < factor.levels.size(); ++l) places[f][factor.levels[l]] = static_cast<Level>(l);
    factor.ordered = std::all_of(factor.levels.begin(), factor.levels.end(),
                                 [](const std::string& level) { return as_number(level).has_value(); });
  }
  for (const auto& pairs : texts) {
    std::vector<Level> row;
    for (std::size_t f = 0; pairs && f < pairs->size(); ++f) {
      const auto at = places[f].find((*pairs)[f].second);
      if (at == places[f].end()) break;
      row.push_back(at->second);
    }
    const bool whole = pairs && row.size() == pairs->size();
    result.rows.push_back(whole ? std::optional(std::move(row)) : std::nullopt);
  }
  return result;
}

}  // namespace moetune
