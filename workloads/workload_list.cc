#include "workloads/workload_list.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/suggest.h"
#include "kernels/registry.h"
#include "ranges/grid.h"

namespace moetune {
namespace {

constexpr double kGridOctaves = 2;
constexpr std::size_t kMostPoints = 100'000;  // of one entry

const Preset* find_preset(const Kernel& kernel, const std::string& name) {
  if (name.empty()) return nullptr;
  return &find_by_name("preset of " + kernel.name(), name, kernel.presets(), &Preset::name);
}

std::vector<std::int64_t> grid_of(const DimensionRange& range) {
  if (range.first == range.last) return {range.first};  // it may be 0, which has no ratio
  return axis_coordinates(range.first, range.last, kGridOctaves);
}

std::vector<WorkloadShape> shapes_of(const WorkloadEntry& entry) {
  if (!entry.shapes.empty()) return entry.shapes;
  std::vector<WorkloadShape> shapes = {{}};
  for (const DimensionRange& range : entry.ranges) {
    std::vector<WorkloadShape> wider;
    for (const WorkloadShape& shape : shapes) {
      for (const std::int64_t value : grid_of(range))
        wider.push_back(
            {shape.problem + (shape.problem.empty() ? "" : ",") + range.name + "=" + std::to_string(value)});
      if (wider.size() > kMostPoints)
        throw BadInput("its ranges make more than " + std::to_string(kMostPoints) + " shapes");
    }
    shapes = std::move(wider);
  }
  return shapes;
}

// A shape's dimensions replace those of the entry.
std::string merged(const std::string& base, const std::string& over) {
  if (base.empty() || over.empty()) return base + over;
  const auto replaced = split_assignment(over, "a shape");
  std::string text = over;
  for (const auto& [name, value] : split_assignment(base, "the problem")) {
    const auto same = [&, &wanted = name](const auto& pair) { return pair.first == wanted; };
    if (std::none_of(replaced.begin(), replaced.end(), same)) text += "," + name + "=" + value;
  }
  return text;
}

}  // namespace

std::size_t shape_count(const WorkloadEntry& entry) {
  if (!entry.shapes.empty()) return entry.shapes.size();
  std::size_t count = 1;
  for (const DimensionRange& range : entry.ranges) count = std::min(count * grid_of(range).size(), kMostPoints + 1);
  return count;
}

std::vector<TuningPoint> points_of(const WorkloadEntry& entry) {
  const Kernel& kernel = find_kernel(entry.kernel);
  const Preset* const preset = find_preset(kernel, entry.preset);
  std::vector<TuningPoint> points;
  std::optional<std::string> why_none;
  double sum = 0;
  for (const WorkloadShape& shape : shapes_of(entry)) {
    try {
      const Problem problem = kernel.parse(merged(entry.problem, shape.problem), preset);
      kernel.check(problem);
      points.push_back({kernel.name(), problem.text(), shape.weight});
      sum += shape.weight;
    } catch (const BadInput& error) {
      if (!entry.shapes.empty() || entry.ranges.empty()) throw;
      if (!why_none) why_none = error.what();
    }
  }
  if (points.empty()) throw BadInput("no shape of its ranges is a problem: " + why_none.value_or("there is none"));
  for (TuningPoint& point : points) point.weight *= entry.weight / sum;
  return points;
}

std::vector<TuningPoint> points_of(const WorkloadList& list) {
  std::vector<TuningPoint> all;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  for (const WorkloadEntry& entry : list.entries) {
    for (TuningPoint& point : points_of(entry)) {
      const auto [found, is_new] = known.emplace(std::pair(point.kernel, point.problem), all.size());
      if (is_new) {
        all.push_back(std::move(point));
      } else {
        all[found->second].weight += point.weight;
      }
    }
  }
  std::ranges::stable_sort(all, [](const TuningPoint& a, const TuningPoint& b) { return a.weight > b.weight; });
  return all;
}

namespace {

bool is_range(const WorkloadEntry& entry) {
  const std::vector<std::string>& names = find_kernel(entry.kernel).free_dimensions();
  const auto is_free = [&](const DimensionRange& range) {
    return std::find(names.begin(), names.end(), range.name) != names.end();
  };
  const auto is_wide = [](const DimensionRange& range) { return range.last > range.first; };
  return entry.shapes.empty() && std::all_of(entry.ranges.begin(), entry.ranges.end(), is_free) &&
         std::any_of(entry.ranges.begin(), entry.ranges.end(), is_wide);
}

// The free dimensions of a family, as wide as all its entries.
struct FamilyHull {
  std::string problem;  // of the first entry
  std::vector<DimensionRange> axes;
  double weight = 0;

  void add(const std::vector<TuningPoint>& points, const Kernel& kernel) {
    if (problem.empty()) problem = points.front().problem;
    for (const TuningPoint& point : points) {
      const Extents extents = kernel.extents_of(kernel.parse(point.problem));
      const std::vector<std::string>& names = kernel.free_dimensions();
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (axes.size() == i) axes.push_back({names[i], extents[i], extents[i]});
        axes[i].first = std::min(axes[i].first, extents[i]);
        axes[i].last = std::max(axes[i].last, extents[i]);
      }
      weight += point.weight;
    }
  }

  std::string over() const {
    std::string text;
    for (const DimensionRange& axis : axes) {
      if (axis.first < axis.last)
        text +=
            (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.first) + ".." + std::to_string(axis.last);
    }
    return text;
  }
};

}  // namespace

TuningWork work_of(const WorkloadList& list) {
  TuningWork work;
  WorkloadList single;
  std::vector<std::pair<std::pair<std::string, std::string>, FamilyHull>> families;
  for (const WorkloadEntry& entry : list.entries) {
    const std::vector<TuningPoint> points = is_range(entry) ? points_of(entry) : std::vector<TuningPoint>();
    if (points.size() < 2) {  // what is left of a range may be one shape
      single.entries.push_back(entry);
      continue;
    }
    const Kernel& kernel = find_kernel(entry.kernel);
    const Problem first = kernel.parse(points.front().problem);
    const std::pair id(entry.kernel, kernel.specialization(first).text());
    auto found = std::find_if(families.begin(), families.end(), [&](const auto& one) { return one.first == id; });
    if (found == families.end()) found = families.insert(families.end(), {id, {}});
    found->second.add(points, kernel);
  }
  for (const auto& [id, hull] : families) work.ranges.push_back({id.first, hull.problem, hull.over(), hull.weight});
  std::ranges::stable_sort(work.ranges, [](const TuningRange& a, const TuningRange& b) { return a.weight > b.weight; });
  work.points = points_of(single);
  return work;
}

}  // namespace moetune
