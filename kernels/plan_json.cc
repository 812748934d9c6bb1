// Plans as JSON: what crosses to the worker and what is stored beside a winner.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "kernels/json_names.h"
#include "kernels/plan.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

// The version of the layout below. Plans of another version are refused.
constexpr int kVersion = 2;

const Names<TensorMap::Swizzle> kSwizzles = {{TensorMap::Swizzle::none, "none"},
                                             {TensorMap::Swizzle::b32, "b32"},
                                             {TensorMap::Swizzle::b64, "b64"},
                                             {TensorMap::Swizzle::b128, "b128"}};

Name name_of(const Json& json) { return Name(json.get_ref<const std::string&>()); }

template <typename T, std::size_t N>
void write_list(Json& json, const FixedVector<T, N>& list) {
  json = Json::array();
  for (const T& item : list) json.push_back(item);
}

template <typename Integer>
Integer integer_of(const Json& json) {
  const bool fits = json.is_number_unsigned()  ? std::in_range<Integer>(json.get<std::uint64_t>())
                    : json.is_number_integer() ? std::in_range<Integer>(json.get<std::int64_t>())
                                               : false;
  if (!fits) throw BadInput("a plan's number " + json.dump() + " is no integer, or out of range");
  return json.get<Integer>();
}

std::int64_t bytes_of(const Json& json) {
  const auto bytes = integer_of<std::int64_t>(json);
  if (bytes < 0) throw BadInput("a plan has a buffer or memset of " + std::to_string(bytes) + " bytes");
  return bytes;
}

const Json& list_of(const Json& json, const char* name) {
  const Json& list = json.at(name);
  if (!list.is_array()) throw BadInput("a plan's " + std::string(name) + " are no list");
  return list;
}

float float_of(const Json& json) {
  const auto value = json.get<double>();
  if (!(std::abs(value) <= std::numeric_limits<float>::max()))
    throw BadInput("a plan's number " + json.dump() + " is beyond a float");
  return static_cast<float>(value);
}

template <typename T, std::size_t N>
void read_list(const Json& json, FixedVector<T, N>& list, const char* what) {
  if (!json.is_array()) throw BadInput("a plan's " + std::string(what) + " are no list");
  if (json.size() > N) {
    throw BadInput("a plan has " + std::to_string(json.size()) + " " + what + "; at most " +
                   std::to_string(N) + " are possible");
  }
  for (const Json& item : json) list.push_back(integer_of<T>(item));
}

Json map_to_json(const TensorMap& map) {
  Json json = {{"buffer", map.buffer.text()},
               {"offset", map.offset},
               {"dtype", dtype_name(map.dtype)},
               {"swizzle", name_of(kSwizzles, map.swizzle)}};
  write_list(json["dims"], map.dims);
  write_list(json["strides"], map.strides);
  write_list(json["box"], map.box);
  return json;
}

TensorMap map_from_json(const Json& json) {
  TensorMap map;
  map.buffer = name_of(json.at("buffer"));
  map.offset = integer_of<std::int64_t>(json.at("offset"));
  map.dtype = dtype_from_name(json.at("dtype").get_ref<const std::string&>());
  map.swizzle = from_name(kSwizzles, "swizzle", json.at("swizzle"));
  read_list(json.at("dims"), map.dims, "dimensions of a tensor map");
  read_list(json.at("strides"), map.strides, "strides of a tensor map");
  read_list(json.at("box"), map.box, "box sizes of a tensor map");
  return map;
}

struct ValueWriter {
  Json& json;
  void operator()(const Pointer& pointer) const {
    json["pointer"] = pointer.buffer.text();
    json["offset"] = pointer.offset;
  }
  void operator()(std::int32_t value) const { json["i32"] = value; }
  void operator()(std::int64_t value) const { json["i64"] = value; }
  void operator()(float value) const {
    if (!std::isfinite(value)) throw std::logic_error("a plan's f32 argument is not finite");
    json["f32"] = value;
  }
  void operator()(const TensorMap& map) const { json["tensor_map"] = map_to_json(map); }
};

Json argument_to_json(const Argument& argument) {
  Json json = {{"name", argument.name.text()}};
  std::visit(ValueWriter{json}, argument.value);
  return json;
}

Dim3 dim3_of(const Json& json) {
  if (json.size() != 3) throw BadInput("a plan's grid, block and cluster have 3 dimensions each");
  return {integer_of<std::uint32_t>(json.at(0)), integer_of<std::uint32_t>(json.at(1)),
          integer_of<std::uint32_t>(json.at(2))};
}

Argument argument_from_json(const Json& json) {
  Argument argument{name_of(json.at("name")), {}};
  if (json.contains("pointer")) {
    argument.value = Pointer{name_of(json.at("pointer")), integer_of<std::int64_t>(json.at("offset"))};
  } else if (json.contains("i32")) {
    argument.value = integer_of<std::int32_t>(json.at("i32"));
  } else if (json.contains("i64")) {
    argument.value = integer_of<std::int64_t>(json.at("i64"));
  } else if (json.contains("f32")) {
    argument.value = float_of(json.at("f32"));
  } else {
    argument.value = map_from_json(json.at("tensor_map"));
  }
  return argument;
}

Json launch_to_json(const Launch& launch) {
  Json arguments = Json::array();
  for (const Argument& argument : launch.arguments) arguments.push_back(argument_to_json(argument));
  return {{"entry", launch.entry.text()},
          {"grid", launch.grid},
          {"block", launch.block},
          {"cluster", launch.cluster},
          {"dynamic_shared", launch.dynamic_shared},
          {"arguments", std::move(arguments)},
          {"programmatic_dependent", launch.programmatic_dependent}};
}

Launch launch_from_json(const Json& json) {
  Launch launch;
  launch.entry = name_of(json.at("entry"));
  launch.grid = dim3_of(json.at("grid"));
  launch.block = dim3_of(json.at("block"));
  launch.cluster = dim3_of(json.at("cluster"));
  launch.dynamic_shared = integer_of<std::uint32_t>(json.at("dynamic_shared"));
  json.at("programmatic_dependent").get_to(launch.programmatic_dependent);
  const Json& arguments = list_of(json, "arguments");
  if (arguments.size() > launch.arguments.capacity()) throw BadInput("a launch has too many arguments");
  for (const Json& argument : arguments) launch.arguments.push_back(argument_from_json(argument));
  return launch;
}

Json memset_to_json(const Memset& memset) {
  return {{"buffer", memset.buffer.text()},
          {"offset", memset.offset},
          {"bytes", memset.bytes},
          {"value", memset.value},
          {"before", memset.before}};
}

Memset memset_from_json(const Json& json) {
  return {name_of(json.at("buffer")), integer_of<std::int64_t>(json.at("offset")), bytes_of(json.at("bytes")),
          integer_of<std::uint8_t>(json.at("value")), integer_of<std::uint32_t>(json.at("before"))};
}

Plan plan_from_json(const Json& json) {
  if (integer_of<int>(json.value("version", Json(1))) != kVersion) {
    throw OtherPlanVersion("the plan was stored by another version of moetune; search again");
  }
  Plan plan;
  json.at("source").get_to(plan.unit.source);
  for (const Json& define : list_of(json, "defines"))
    plan.unit.defines.emplace_back(define.at(0), define.at(1));
  if (json.contains("instances"))
    for (const Json& instance : list_of(json, "instances")) plan.unit.instances.push_back(instance);
  const Json &scratch = list_of(json, "scratch"), &memsets = list_of(json, "memsets"),
             &launches = list_of(json, "launches");
  if (scratch.size() > plan.scratch.capacity() || memsets.size() > plan.memsets.capacity() ||
      launches.size() > plan.launches.capacity()) {
    throw BadInput("a plan has more scratch buffers, memsets or launches than are possible");
  }
  for (const Json& part : scratch) {
    plan.scratch.push_back({name_of(part.at("name")), bytes_of(part.at("bytes")), part.at("zeroed")});
  }
  for (const Json& memset : memsets) plan.memsets.push_back(memset_from_json(memset));
  for (const Json& launch : launches) plan.launches.push_back(launch_from_json(launch));
  return plan;
}

}  // namespace

void to_json(Json& json, const Plan& plan) {
  Json scratch = Json::array(), memsets = Json::array(), launches = Json::array(), defines = Json::array();
  for (const Scratch& part : plan.scratch) {
    scratch.push_back({{"name", part.name.text()}, {"bytes", part.bytes}, {"zeroed", part.zeroed}});
  }
  for (const Memset& memset : plan.memsets) memsets.push_back(memset_to_json(memset));
  for (const Launch& launch : plan.launches) launches.push_back(launch_to_json(launch));
  for (const auto& [name, value] : plan.unit.defines) defines.push_back(Json::array({name, value}));
  json = {{"version", kVersion},           {"source", plan.unit.source},
          {"defines", std::move(defines)}, {"scratch", std::move(scratch)},
          {"memsets", std::move(memsets)}, {"launches", std::move(launches)}};
  if (!plan.unit.instances.empty()) json["instances"] = plan.unit.instances;
}

void from_json(const Json& json, Plan& plan) {
  read_as("plan", [&] { plan = plan_from_json(json); });
}

}  // namespace moetune
