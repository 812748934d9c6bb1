// Plan and Buffer as JSON: what crosses to the worker and what is stored beside a winner. Reading gives back
// exactly what was written; a document of another shape throws BadInput.
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"
#include "base/suggest.h"
#include "kernels/packed_integers.h"
#include "kernels/plan.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

template <typename Enum>
using Names = std::vector<std::pair<Enum, std::string>>;

const Names<TensorMap::Swizzle> kSwizzles = {{TensorMap::Swizzle::none, "none"},
                                             {TensorMap::Swizzle::b32, "b32"},
                                             {TensorMap::Swizzle::b64, "b64"},
                                             {TensorMap::Swizzle::b128, "b128"}};
const Names<Fill::Kind> kFills = {{Fill::Kind::zeros, "zeros"},
                                  {Fill::Kind::normal, "normal"},
                                  {Fill::Kind::uniform, "uniform"},
                                  {Fill::Kind::integers, "integers"}};
const Names<Role> kRoles = {{Role::input, "input"}, {Role::output, "output"}};

template <typename Enum>
const std::string& name_of(const Names<Enum>& names, Enum value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  throw std::logic_error("an enumerator without a name");
}

template <typename Enum>
Enum from_name(const Names<Enum>& names, std::string_view kind, const std::string& wanted) {
  std::vector<std::string> known;
  for (const auto& [value, name] : names) {
    if (name == wanted) return value;
    known.push_back(name);
  }
  throw BadInput(unknown_name(kind, wanted, known));
}

template <typename Read>
void read_as(std::string_view what, Read&& read) {
  try {
    read();
  } catch (const Json::exception& error) {
    throw BadInput("this JSON is not a " + std::string(what) + ": " + error.what());
  }
}

Json argument_to_json(const Argument& argument) {
  if (const auto* pointer = std::get_if<Pointer>(&argument)) {
    return {{"pointer", pointer->buffer}, {"offset", pointer->offset}};
  }
  if (const auto* scalar = std::get_if<Scalar>(&argument)) return {{"scalar", hex_of_bytes(scalar->bytes)}};
  const auto& map = std::get<TensorMap>(argument);
  return {{"tensor_map", map.buffer}, {"dtype", dtype_name(map.dtype)},
          {"dims", map.dims},         {"strides", map.strides},
          {"box", map.box},           {"swizzle", name_of(kSwizzles, map.swizzle)}};
}

Argument argument_from_json(const Json& json) {
  if (json.contains("pointer")) return Pointer{json.at("pointer"), json.at("offset")};
  if (json.contains("scalar")) return Scalar{bytes_of_hex(json.at("scalar").get_ref<const std::string&>())};
  TensorMap map;
  map.buffer = json.at("tensor_map");
  map.dtype = dtype_from_name(json.at("dtype").get_ref<const std::string&>());
  json.at("dims").get_to(map.dims);
  json.at("strides").get_to(map.strides);
  json.at("box").get_to(map.box);
  map.swizzle = from_name(kSwizzles, "swizzle", json.at("swizzle"));
  return map;
}

Json launch_to_json(const Launch& launch) {
  Json arguments = Json::array();
  for (const Argument& argument : launch.arguments) arguments.push_back(argument_to_json(argument));
  return {{"entry", launch.entry},
          {"grid", launch.grid},
          {"block", launch.block},
          {"cluster", launch.cluster},
          {"dynamic_shared", launch.dynamic_shared},
          {"arguments", std::move(arguments)},
          {"programmatic_dependent", launch.programmatic_dependent}};
}

Launch launch_from_json(const Json& json) {
  Launch launch;
  json.at("entry").get_to(launch.entry);
  json.at("grid").get_to(launch.grid);
  json.at("block").get_to(launch.block);
  json.at("cluster").get_to(launch.cluster);
  json.at("dynamic_shared").get_to(launch.dynamic_shared);
  for (const Json& argument : json.at("arguments")) launch.arguments.push_back(argument_from_json(argument));
  json.at("programmatic_dependent").get_to(launch.programmatic_dependent);
  return launch;
}

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

void to_json(Json& json, const Plan& plan) {
  Json scratch = Json::array(), launches = Json::array(), defines = Json::array();
  for (const Scratch& part : plan.scratch) {
    scratch.push_back({{"name", part.name}, {"bytes", part.bytes}, {"zeroed", part.zeroed}});
  }
  for (const Launch& launch : plan.launches) launches.push_back(launch_to_json(launch));
  for (const auto& [name, value] : plan.unit.defines) defines.push_back(Json::array({name, value}));
  json = {{"source", plan.unit.source},
          {"defines", std::move(defines)},
          {"scratch", std::move(scratch)},
          {"launches", std::move(launches)}};
}

void from_json(const Json& json, Plan& plan) {
  read_as("plan", [&] {
    Plan read;
    json.at("source").get_to(read.unit.source);
    for (const Json& define : json.at("defines")) read.unit.defines.emplace_back(define.at(0), define.at(1));
    for (const Json& part : json.at("scratch")) {
      read.scratch.push_back({part.at("name"), part.at("bytes"), part.at("zeroed")});
    }
    for (const Json& launch : json.at("launches")) read.launches.push_back(launch_from_json(launch));
    plan = std::move(read);
  });
}

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
