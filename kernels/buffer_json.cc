// Buffers as JSON: what crosses to the worker.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "kernels/json_names.h"
#include "kernels/packed_integers.h"
#include "kernels/plan.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

const Names<Fill::Kind> kFills = {{Fill::Kind::zeros, "zeros"},
                                  {Fill::Kind::normal, "normal"},
                                  {Fill::Kind::uniform, "uniform"},
                                  {Fill::Kind::integers, "integers"}};
const Names<Role> kRoles = {{Role::input, "input"}, {Role::output, "output"}};

Json fill_to_json(const Fill& fill) {
  Json json = {{"kind", name_of(kFills, fill.kind)}, {"scale", fill.scale}};
  if (!fill.integers.empty()) {
    json["integers"] = pack_integers(std::vector<std::int64_t>(fill.integers.begin(), fill.integers.end()));
  }
  if (!fill.poison.empty()) {
    std::vector<std::int64_t> begins, counts;  // apart: each list then moves in small steps
    for (const Range& range : fill.poison) {
      begins.push_back(range.begin);
      counts.push_back(range.count);
    }
    json["poison"] = {{"begins", pack_integers(begins)}, {"counts", pack_integers(counts)}};
  }
  return json;
}

Fill fill_from_json(const Json& json) {
  Fill fill;
  fill.kind = from_name(kFills, "fill", json.at("kind"));
  json.at("scale").get_to(fill.scale);
  if (json.contains("integers")) {
    for (const std::int64_t value : unpack_integers(json.at("integers").get_ref<const std::string&>())) {
      if (value != static_cast<std::int32_t>(value))
        throw BadInput("a fill holds an integer of more than 32 bits");
      fill.integers.push_back(static_cast<std::int32_t>(value));
    }
  }
  if (json.contains("poison")) {
    const Json& poison = json.at("poison");
    const auto begins = unpack_integers(poison.at("begins").get_ref<const std::string&>());
    const auto counts = unpack_integers(poison.at("counts").get_ref<const std::string&>());
    if (begins.size() != counts.size())
      throw BadInput("a fill's poison has more begins than counts, or fewer");
    for (std::size_t i = 0; i < begins.size(); ++i) fill.poison.push_back({begins[i], counts[i]});
  }
  return fill;
}

}  // namespace

void to_json(Json& json, const Buffer& buffer) {
  json = {{"name", buffer.name},         {"dtype", dtype_name(buffer.dtype)},
          {"elements", buffer.elements}, {"role", name_of(kRoles, buffer.role)},
          {"rotates", buffer.rotates},   {"fill", fill_to_json(buffer.fill)}};
}

void from_json(const Json& json, Buffer& buffer) {
  read_as("buffer", [&] {
    Buffer read;
    json.at("name").get_to(read.name);
    read.dtype = dtype_from_name(json.at("dtype").get_ref<const std::string&>());
    json.at("elements").get_to(read.elements);
    read.role = from_name(kRoles, "role", json.at("role"));
    json.at("rotates").get_to(read.rotates);
    read.fill = fill_from_json(json.at("fill"));
    buffer = std::move(read);
  });
}

}  // namespace moetune
