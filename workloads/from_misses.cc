#include "workloads/from_misses.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/as_field.h"
#include "base/error.h"
#include "base/utf8.h"
#include "jobs/range/served_ranges.h"
#include "jobs/stored/misses.h"
#include "kernels/registry.h"
#include "ranges/grid.h"

namespace moetune {
namespace {

// Limits of a list (JsonPlace::positive).
constexpr double kMostWeight = 1e12;
constexpr std::size_t kLongestProblem = 300, kLongestReason = 400;  // as notes show them

// "" if this moetune has the problem.
std::string why_unknown(const MissedWorkload& missed) {
  try {
    const Kernel& kernel = find_kernel(missed.kernel);
    kernel.check(kernel.parse(missed.problem));
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

std::vector<DimensionRange> read_over(const std::string& over) {
  return over.empty() ? std::vector<DimensionRange>() : as_field("over", [&] { return parse_ranges(over); });
}

// The asked ranges among a kernel's free dimensions; marks them as used.
std::vector<DimensionRange> ranges_for(const Kernel& kernel, const std::vector<DimensionRange>& over,
                                       std::set<std::string>& used) {
  std::vector<DimensionRange> ranges;
  const std::vector<std::string>& names = kernel.free_dimensions();
  for (const DimensionRange& one : over) {
    if (std::find(names.begin(), names.end(), one.name) == names.end()) continue;
    used.insert(one.name);
    as_field("over", [&] { check_range(kernel.name(), kernel.schema(), one.name, one.first, one.last); });
    ranges.push_back(one);
  }
  return ranges;
}

// Without entries, a range that any kernel has is as good as used.
void check_used(const std::vector<DimensionRange>& asked, std::set<std::string> used, bool no_entries,
                const std::filesystem::path& file) {
  if (no_entries)
    for (const Kernel* kernel : all_kernels())
      used.insert(kernel->free_dimensions().begin(), kernel->free_dimensions().end());
  for (const DimensionRange& one : asked) {
    if (!used.contains(one.name))
      throw BadField("over", "no kernel" + (no_entries ? "" : " in " + file.string()) + " has a free dimension '" +
                                 one.name + "'");
  }
}

// The entry of the problem's family: its dimensions without those of the ranges.
WorkloadEntry family_entry(const Kernel& kernel, const Problem& problem, std::vector<DimensionRange> ranges) {
  std::string rest;
  for (const auto& [name, value] : split_assignment(problem.text(), "a missed problem")) {
    const auto is_it = [&, &wanted = name](const DimensionRange& range) { return range.name == wanted; };
    if (std::none_of(ranges.begin(), ranges.end(), is_it)) rest += (rest.empty() ? "" : ",") + name + "=" + value;
  }
  return {.name = "missed", .kernel = kernel.name(), .problem = rest, .ranges = std::move(ranges), .weight = 0};
}

}  // namespace

MissedList workloads_from_misses(const std::filesystem::path& file, const std::string& over) {
  MissedList result;
  const std::vector<DimensionRange> asked = read_over(over);
  std::set<std::string> used;
  std::map<std::pair<std::string, std::string>, std::size_t> families;
  std::set<std::pair<std::string, std::string>> left_out;  // families
  std::size_t shapes = 0;
  // Each kernel may have one more, of shapes.
  const std::size_t most_entries = kMostEntries - all_kernels().size();
  const std::vector<MissedWorkload> all = read_misses(file);
  result.none = all.empty();
  for (const MissedWorkload& missed : all) {
    if (const std::string why = why_unknown(missed); !why.empty()) {
      result.notes.push_back(shortened(missed.kernel + " " + missed.problem, kLongestProblem) +
                             " is left out: " + shortened(why, kLongestReason));
      continue;
    }
    std::vector<WorkloadEntry>& entries = result.list.entries;
    const double weight = std::min(kMostWeight, static_cast<double>(std::max<std::uint64_t>(1, missed.count)));
    const auto add = [&](WorkloadEntry& to) { to.weight = std::min(kMostWeight, to.weight + weight); };
    const Kernel& kernel = find_kernel(missed.kernel);
    const Problem problem = kernel.parse(missed.problem);
    std::vector<DimensionRange> ranges = ranges_for(kernel, asked, used);
    // One outside of the ranges stays a shape. Those of one family that differ in what is no range are an entry each.
    if (!ranges.empty() && covers(ranges, served_ranges(kernel, {}, problem))) {
      const std::pair key(kernel.name(), kernel.specialization(problem).text() + " " +
                                             ranges_text(served_ranges(kernel, ranges, problem)));
      if (entries.size() >= most_entries && !families.contains(key)) {
        left_out.insert(key);
        continue;
      }
      const auto [family, is_new] = families.emplace(key, entries.size());
      if (is_new) entries.push_back(family_entry(kernel, problem, std::move(ranges)));
      add(entries[family->second]);
      continue;
    }
    auto entry = std::ranges::find_if(
        entries, [&](const WorkloadEntry& one) { return one.kernel == missed.kernel && one.ranges.empty(); });
    if (entry == entries.end()) {
      entries.push_back({.name = "missed", .kernel = missed.kernel, .weight = 0});
      entry = entries.end() - 1;
    }
    if (++shapes > kMostShapes) continue;
    entry->shapes.push_back({missed.problem, weight});
    add(*entry);
  }
  if (shapes > kMostShapes)
    result.notes.push_back(std::to_string(shapes - kMostShapes) + " shapes are left out: a list has at most " +
                           std::to_string(kMostShapes));
  if (!left_out.empty())
    result.notes.push_back(std::to_string(left_out.size()) + " families are left out: a list has at most " +
                           std::to_string(kMostEntries) + " entries");
  check_used(asked, used, result.list.entries.empty(), file);
  return result;
}

}  // namespace moetune
