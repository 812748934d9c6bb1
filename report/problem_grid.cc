#include "report/problem_grid.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"

namespace moetune {
namespace {

// The integer dimensions in which problems differ, those with most values last.
std::vector<std::string> differing(const std::vector<const Assignment*>& dims) {
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const auto& [name, first] : *dims.front()) {
    std::set<std::int64_t> values;
    bool whole = true;
    for (const Assignment* const one : dims) {
      const Value* const value = one->find(name);
      whole = whole && value != nullptr && !value->is_named();
      if (whole) values.insert(value->number);
    }
    if (whole && values.size() > 1) found.emplace_back(values.size(), name);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (auto& [count, name] : found) names.push_back(std::move(name));
  return names;
}

Assignment common_part(const std::vector<const Assignment*>& dims) {
  Assignment common;
  for (const auto& [name, value] : *dims.front()) {
    const bool same = std::ranges::all_of(dims, [&](const Assignment* one) {
      const Value* const other = one->find(name);
      return other != nullptr && *other == value;
    });
    if (same) common.set(name, value);
  }
  return common;
}

std::int64_t value_in(const Assignment& dims, const std::string& name) { return name.empty() ? 0 : dims.number(name); }

std::vector<std::int64_t> lines_of(const std::set<std::int64_t>& values) {
  std::vector<std::int64_t> lines(values.begin(), values.end());
  lines.resize(std::min(lines.size(), kMostGridLines));
  return lines;
}

void fill(ProblemGrid& grid, const std::vector<const Assignment*>& dims, const std::vector<std::size_t>& members) {
  std::set<std::int64_t> rows, columns;
  for (const std::size_t i : members) {
    rows.insert(value_in(*dims[i], grid.down));
    columns.insert(value_in(*dims[i], grid.across));
  }
  grid.rows = lines_of(rows);
  grid.columns = lines_of(columns);
  grid.cells.resize(grid.rows.size() * grid.columns.size());
  for (const std::size_t i : members) {
    const auto row = std::ranges::find(grid.rows, value_in(*dims[i], grid.down));
    const auto column = std::ranges::find(grid.columns, value_in(*dims[i], grid.across));
    if (row == grid.rows.end() || column == grid.columns.end()) continue;
    grid.cell(static_cast<std::size_t>(row - grid.rows.begin()),
              static_cast<std::size_t>(column - grid.columns.begin())) = i;
  }
}

}  // namespace

std::vector<ProblemGrid> problem_grids(const std::vector<const Assignment*>& dims,
                                       const std::vector<std::string>& wanted) {
  if (dims.empty()) return {};
  std::vector<std::string> names = differing(dims);
  if (!wanted.empty())
    std::erase_if(names, [&](const std::string& name) { return std::ranges::find(wanted, name) == wanted.end(); });
  if (names.empty()) return {};
  const std::string across = names.back(), down = names.size() > 1 ? names[names.size() - 2] : "";
  const Assignment common = common_part(dims);
  std::map<std::string, std::vector<std::size_t>> parts;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    Assignment rest;
    for (const auto& [name, value] : *dims[i]) {
      if (name != down && name != across && common.find(name) == nullptr) rest.set(name, value);
    }
    parts[rest.text()].push_back(i);
  }
  std::vector<ProblemGrid> grids;
  for (const auto& [rest, members] : parts) {
    ProblemGrid& grid = grids.emplace_back(ProblemGrid{.rest = rest, .down = down, .across = across});
    fill(grid, dims, members);
  }
  return grids;
}

std::vector<std::string> differing_parts(const std::vector<const Assignment*>& dims) {
  std::vector<std::string> texts;
  if (dims.empty()) return texts;
  const Assignment common = common_part(dims);
  for (const Assignment* const one : dims) {
    Assignment part;
    for (const auto& [name, value] : *one) {
      if (common.find(name) == nullptr) part.set(name, value);
    }
    texts.push_back(part.text());
  }
  return texts;
}

std::size_t Variants::number_of(const WorkloadKey& key, const std::string& config) {
  const auto [known, is_new] = numbers_.try_emplace(key.kernel + ' ' + config);
  if (!is_new) return known->second;
  std::string compiled = config;
  if (const Space* const space = spaces_.space(key)) {
    try {
      compiled = split_config(space->parse_config(config), space->parameters()).compiled.text();
    } catch (const BadInput&) {  // of another version: each configuration counts as a cubin
    }
  }
  const auto at = std::ranges::find(names_, compiled);
  known->second = static_cast<std::size_t>(at - names_.begin());
  if (at == names_.end()) names_.push_back(compiled);
  return known->second;
}

}  // namespace moetune
