// Plans as JSON: what crosses to the worker and what is stored beside a winner.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/json.h"
#include "kernels/json_names.h"
#include "kernels/json_text.h"
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

template <typename Text = Name>
Text name_of(const Json& json) {
  return Text(json.get_ref<const std::string&>());
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
    throw BadInput("a plan has " + std::to_string(json.size()) + " " + what + "; at most " + std::to_string(N) +
                   " are possible");
  }
  for (const Json& item : json) list.push_back(integer_of<T>(item));
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
  } else if (json.contains("struct")) {
    StructValue value;
    read_list(json.at("struct"), value.words, "words of a struct");
    argument.value = value;
  } else {
    argument.value = map_from_json(json.at("tensor_map"));
  }
  return argument;
}

Launch launch_from_json(const Json& json) {
  Launch launch;
  launch.entry = name_of<EntryName>(json.at("entry"));
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

Memset memset_from_json(const Json& json) {
  const bool copies = json.contains("symbol");
  return {name_of(json.at("buffer")),
          integer_of<std::int64_t>(json.at("offset")),
          bytes_of(json.at("bytes")),
          copies ? std::uint8_t{0} : integer_of<std::uint8_t>(json.at("value")),
          integer_of<std::uint32_t>(json.at("before")),
          copies ? name_of(json.at("symbol")) : Name()};
}

Plan plan_from_json(const Json& json) {
  if (integer_of<int>(json.value("version", Json(1))) != kVersion) {
    throw OtherPlanVersion("the plan was stored by another version of moetune; search again");
  }
  Plan plan;
  json.at("source").get_to(plan.unit.source);
  for (const Json& define : list_of(json, "defines")) plan.unit.defines.emplace_back(define.at(0), define.at(1));
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

class PlanWriter : public JsonText<PlanWriter> {
 public:
  using JsonText::write;
  void write(float value) {
    if (!std::isfinite(value)) throw std::logic_error("a plan's f32 argument is not finite");
    write(double{value});
  }
  template <std::size_t N>
  void write(const ShortText<N>& name) {
    write(name.view());
  }
  void write(const TensorMap& map) {
    object("box", map.box, "buffer", map.buffer, "dims", map.dims, "dtype", dtype_name(map.dtype), "offset", map.offset,
           "strides", map.strides, "swizzle", name_of(kSwizzles, map.swizzle));
  }
  void write(const Argument& argument) {
    const auto named = [&](const char* type, const auto& value) {
      type < std::string_view("name") ? object(type, value, "name", argument.name)
                                      : object("name", argument.name, type, value);
    };
    std::visit(
        Overloaded{
            [&](std::int32_t value) { named("i32", value); }, [&](std::int64_t value) { named("i64", value); },
            [&](float value) { named("f32", value); }, [&](const TensorMap& map) { named("tensor_map", map); },
            [&](const StructValue& value) { named("struct", value.words); },
            [&](const Pointer& to) { object("name", argument.name, "offset", to.offset, "pointer", to.buffer); }},
        argument.value);
  }
  void write(const Launch& launch) {
    object("arguments", launch.arguments, "block", launch.block, "cluster", launch.cluster, "dynamic_shared",
           launch.dynamic_shared, "entry", launch.entry, "grid", launch.grid, "programmatic_dependent",
           launch.programmatic_dependent);
  }
  void write(const Memset& memset) {
    text_ += '{';
    fields("before", memset.before, "buffer", memset.buffer, "bytes", memset.bytes, "offset", memset.offset);
    // No value is there for a copy: versions without copies refuse it then.
    memset.symbol.empty() ? more("value", memset.value) : more("symbol", memset.symbol);
    text_ += '}';
  }
  void write(const Scratch& part) { object("bytes", part.bytes, "name", part.name, "zeroed", part.zeroed); }
  void write(const Plan& plan) {
    const auto& [source, defines, instances] = plan.unit;
    text_ += '{';
    fields("defines", defines);
    if (!instances.empty()) more("instances", instances);
    more("launches", plan.launches, "memsets", plan.memsets, "scratch", plan.scratch, "source", source, "version",
         kVersion);
    text_ += '}';
  }

 private:
  template <typename... Cases>
  struct Overloaded : Cases... {
    using Cases::operator()...;
  };
};

}  // namespace

std::string plan_text(const Plan& plan) {
  PlanWriter writer;
  writer.write(plan);
  return std::move(writer).finish();
}

void to_json(Json& json, const Plan& plan) { json = parse_json(plan_text(plan), "a plan"); }

void from_json(const Json& json, Plan& plan) {
  read_as("plan", [&] { plan = plan_from_json(json); });
}

}  // namespace moetune
