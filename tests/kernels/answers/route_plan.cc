#include <algorithm>

#include "kernels/moe/route_plan_problem.h"
#include "tests/kernels/answers/answers.h"

namespace moetune {
namespace {

// The segment of an id, or -1.
double segment_of(double id, std::int64_t experts, const std::vector<double>* map) {
  if (map != nullptr) id = id >= 0 && id < static_cast<double>(map->size()) ? (*map)[static_cast<std::size_t>(id)] : -1;
  return id >= 0 && id < static_cast<double>(experts) ? id : -1;
}

// The slots of each expert, in order, as many as it has room for.
std::vector<std::vector<double>> slots_of_experts(const RoutePlanShape& shape, const std::vector<double>& segments) {
  std::vector<std::vector<double>> slots(static_cast<std::size_t>(shape.experts));
  for (std::size_t slot = 0; slot < segments.size(); ++slot) {
    if (segments[slot] < 0) continue;
    std::vector<double>& own = slots[static_cast<std::size_t>(segments[slot])];
    if (shape.segment == 0 || std::ssize(own) < shape.segment) own.push_back(static_cast<double>(slot));
  }
  return slots;
}

}  // namespace

HostTensors route_plan_on_cpu(const Problem& problem, const Call&, const HostTensors& inputs) {
  const RoutePlanShape shape(problem);
  const auto map = inputs.find("expert_map");
  std::vector<double> segments;
  for (const double id : inputs.at("ids"))
    segments.push_back(segment_of(id, shape.experts, map == inputs.end() ? nullptr : &map->second));
  if (shape.counted) {
    const double live = std::clamp<double>(inputs.at("token_count").front(), 0, static_cast<double>(shape.tokens));
    std::fill(segments.begin() + static_cast<std::ptrdiff_t>(live) * shape.top_k, segments.end(), -1.0);
  }
  HostTensors out;
  std::vector<double>&sorted = out["sorted"], &inverse = out["inverse"], &counts = out["counts"];
  std::vector<double> offsets = {0}, blocks, rows;
  inverse.resize(segments.size(), -1);
  double expert = 0;
  for (const std::vector<double>& slots : slots_of_experts(shape, segments)) {
    for (const double slot : slots) {
      inverse[static_cast<std::size_t>(slot)] = static_cast<double>(sorted.size());
      sorted.push_back(slot);
      rows.push_back(expert);
    }
    counts.push_back(static_cast<double>(slots.size()));
    const auto is_whole = [&] {
      const std::int64_t taken = std::ssize(sorted) - static_cast<std::int64_t>(offsets.back());
      return shape.segment > 0 ? taken == shape.segment : taken % shape.align == 0;
    };
    while (!is_whole()) {
      sorted.push_back(static_cast<double>(segments.size()));
      rows.push_back(-1);
    }
    offsets.push_back(static_cast<double>(sorted.size()));
    while (std::ssize(blocks) * shape.align < std::ssize(sorted)) blocks.push_back(expert);
    ++expert;
  }
  const auto places = static_cast<std::size_t>(shape.places());
  sorted.resize(places, static_cast<double>(segments.size()));
  rows.resize(places, -1);
  blocks.resize(places / static_cast<std::size_t>(shape.align), -1);
  if (shape.dropped) {
    for (std::size_t slot = 0; slot < segments.size(); ++slot)
      out["dropped"].push_back(segments[slot] >= 0 && inverse[slot] < 0);
  }
  if (shape.layout == RouterShape::Layout::blocks) out["block_experts"] = blocks;
  if (shape.layout == RouterShape::Layout::rows) out["row_experts"] = rows;
  if (shape.layout == RouterShape::Layout::ends) out["ends"] = {offsets.begin() + 1, offsets.end()};
  if (shape.segment == 0) out["offsets"] = offsets;
  return out;
}

}  // namespace moetune
