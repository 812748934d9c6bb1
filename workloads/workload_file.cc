// Reading and writing workloads.json.
#include <algorithm>

#include "base/error.h"
#include "base/located_json.h"
#include "base/suggest.h"
#include "kernels/registry.h"
#include "ranges/grid.h"
#include "search/assignment.h"
#include "workloads/workload_list.h"

namespace moetune {
namespace {

constexpr std::size_t kMostFileBytes = std::size_t{16} << 20;
constexpr std::size_t kMostRanges = 16, kMostKeys = 16;
constexpr int kFileVersion = 1;

// Adds the place to an error that `read` throws.
template <typename Read>
auto located(const JsonPlace& place, Read&& read) {
  try {
    return read();
  } catch (const BadInput& error) {
    place.fail(std::string("is refused: ") + error.what());
  }
}

std::vector<DimensionRange> ranges_of(const JsonPlace& place, const Kernel& kernel) {
  std::vector<DimensionRange> ranges;
  for (const auto& [dimension, value] : place.members(kMostRanges)) {
    const auto& schema = kernel.schema();
    const auto known = std::ranges::find(schema, dimension, &Dimension::name);
    if (known == schema.end() || !known->names.empty()) {
      std::vector<std::string> numbers;
      for (const Dimension& one : schema)
        if (one.names.empty()) numbers.push_back(one.name);
      value.fail("is refused: " + unknown_name("dimension of " + kernel.name() + " with a number", dimension, numbers));
    }
    if (!value.value().is_number() && !value.value().is_string())
      value.fail("must be a whole number or a text such as 1..256" + value.shown());
    if (value.value().is_number()) {
      const std::int64_t number = value.integer(known->minimum, known->maximum);
      ranges.push_back({dimension, number, number});
      continue;
    }
    const std::string text = value.text();
    ranges.push_back(located(value, [&, &name = dimension] { return parse_range(name, text); }));
    if (ranges.back().first < known->minimum || ranges.back().last > known->maximum)
      value.fail("must lie from " + std::to_string(known->minimum) + " to " + std::to_string(known->maximum) +
                 " (got " + text + ")");
  }
  return ranges;
}

// Refuses null, which find() takes as absent and the schema forbids. Only notes may be null.
void refuse_null(const JsonPlace& place) {
  for (const auto& [key, member] : place.members(kMostKeys))
    if (member.value().is_null() && key != "notes") member.fail("must not be null");
}

WorkloadShape shape_of(const JsonPlace& place) {
  if (place.value().is_string()) return {place.text()};
  if (!place.value().is_object()) place.fail("must be a text or an object with a problem" + place.shown());
  place.allow_only({"problem", "weight"});
  refuse_null(place);
  const std::optional<JsonPlace> weight = place.find("weight");
  return {place.at("problem").text(), weight ? weight->positive() : 1};
}

// `entry` is the shapes' entry without them: each must be a problem of it.
std::vector<WorkloadShape> listed_shapes(const JsonPlace& place, WorkloadEntry entry) {
  const std::vector<JsonPlace> places = place.elements(kMostShapes);
  if (places.empty()) place.fail("must list at least one problem" + place.shown());
  std::vector<WorkloadShape> shapes;
  for (const JsonPlace& one : places) {
    shapes.push_back(shape_of(one));
    entry.shapes = {shapes.back()};
    located(one, [&] { return points_of(entry).size(); });
  }
  return shapes;
}

// Reports a fault of the preset alone, or of the problem alone, at its key; points_of() reports the rest.
void check_base(const JsonPlace& place, const Kernel& kernel, const WorkloadEntry& entry) {
  if (const auto preset = place.find("preset"))
    located(*preset, [&] { return points_of({.kernel = entry.kernel, .preset = entry.preset}).size(); });
  if (const auto problem = place.find("problem")) located(*problem, [&] { return kernel.parse(entry.problem); });
}

// The key of an entry that its combination with the others is reported at.
JsonPlace combining_place(const JsonPlace& place) {
  for (const char* key : {"ranges", "problem", "preset"})
    if (const auto found = place.find(key)) return *found;
  return place;
}

// `left` is how many shapes the file may still have.
WorkloadEntry entry_of(const JsonPlace& place, std::size_t& left) {
  place.allow_only({"name", "kernel", "preset", "problem", "ranges", "shapes", "weight"});
  refuse_null(place);
  const auto text = [&](const char* key) {
    const std::optional<JsonPlace> found = place.find(key);
    return found ? found->text() : std::string();
  };
  WorkloadEntry entry{.name = text("name"), .kernel = place.at("kernel").text()};
  const Kernel& kernel =
      located(place.at("kernel"), [&]() -> std::reference_wrapper<const Kernel> { return find_kernel(entry.kernel); });
  entry.preset = text("preset");
  entry.problem = text("problem");
  check_base(place, kernel, entry);
  const auto ranges = place.find("ranges"), listed = place.find("shapes");
  if (ranges && listed) place.fail("has both ranges and shapes; it takes one");
  if (ranges) entry.ranges = ranges_of(*ranges, kernel);
  if (const auto weight = place.find("weight")) entry.weight = weight->positive();
  if (listed) entry.shapes = listed_shapes(*listed, entry);
  const std::size_t shapes = shape_count(entry);
  if (shapes > left) place.fail("brings the list to more than " + std::to_string(kMostShapes) + " shapes");
  left -= shapes;
  located(combining_place(place), [&] { return points_of(entry).size(); });
  return entry;
}

WorkloadList list_of(const LocatedJson& file) {
  const JsonPlace root = file.root();
  root.allow_only({"$schema", "moetune_workloads", "workloads", "notes"});
  refuse_null(root);
  if (const auto schema = root.find("$schema")) schema->text();
  root.at("moetune_workloads").integer(kFileVersion, kFileVersion);
  WorkloadList list;
  std::size_t left = kMostShapes;
  for (const JsonPlace& one : root.at("workloads").elements(kMostEntries)) list.entries.push_back(entry_of(one, left));
  return list;
}

}  // namespace

WorkloadList read_workloads(const std::filesystem::path& file) {
  const LocatedJson json = LocatedJson::read(file, kMostFileBytes);
  return list_of(json);
}

WorkloadList parse_workloads(std::string text, const std::string& file) {
  const LocatedJson json(std::move(text), file);
  return list_of(json);
}

std::string workloads_text(const WorkloadList& list) {
  using Json = nlohmann::ordered_json;
  Json entries = Json::array();
  for (const WorkloadEntry& entry : list.entries) {
    Json one = Json::object();
    if (!entry.name.empty()) one["name"] = entry.name;
    one["kernel"] = entry.kernel;
    if (!entry.preset.empty()) one["preset"] = entry.preset;
    if (!entry.problem.empty()) one["problem"] = entry.problem;
    for (const DimensionRange& range : entry.ranges) {
      Json& value = one["ranges"][range.name];
      if (range.first == range.last) {
        value = range.first;
      } else {
        value = std::to_string(range.first) + ".." + std::to_string(range.last);
      }
    }
    for (const WorkloadShape& shape : entry.shapes)
      one["shapes"].push_back(shape.weight == 1 ? Json(shape.problem)
                                                : Json{{"problem", shape.problem}, {"weight", shape.weight}});
    if (entry.weight != 1) one["weight"] = entry.weight;
    entries.push_back(std::move(one));
  }
  const Json document = {{"moetune_workloads", kFileVersion}, {"workloads", std::move(entries)}};
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moetune
