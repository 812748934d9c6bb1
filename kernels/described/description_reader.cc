#include "kernels/described/description_reader.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/resources.h"
#include "base/suggest.h"
#include "kernels/kernel.h"

namespace moetune {
namespace {

constexpr std::size_t kMostFormulas = 2048, kLongestEntry = 256;

bool is_word(std::string_view text) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), is_part);
}

const Dimension* find_dimension(const Description& description, std::string_view name) {
  const auto found = std::find_if(description.schema.begin(), description.schema.end(),
                                  [&](const Dimension& one) { return one.name == name; });
  return found == description.schema.end() ? nullptr : &*found;
}

// The slots that an expression reads, with those of its lets.
std::set<Slot> slots_read(const Expression& expression, const SpaceFile& space) {
  std::set<Slot> read;
  std::vector<Slot> open = expression.slots();
  while (!open.empty()) {
    const Slot slot = open.back();
    open.pop_back();
    if (!read.insert(slot).second) continue;
    for (const SpaceFile::Let& let : space.lets)
      if (let.slot == slot) open.insert(open.end(), let.expression.slots().begin(), let.expression.slots().end());
  }
  return read;
}

std::string why_unreadable(const Vocabulary::Symbol& symbol, const Description& description, const MayRead& may) {
  const std::string& name = symbol.name;
  if (symbol.kind == Vocabulary::Kind::let) return "";
  if (symbol.kind == Vocabulary::Kind::parameter) {
    const auto& parameters = description.space.parameters;
    const bool at_launch = std::ranges::find(parameters, name, &Parameter::name)->at_launch;
    if (may.parameters && at_launch && !may.launch_parameters)
      return "the parameter '" + name + "' belongs to a launch: no cubin has it compiled in";
    return may.parameters ? "" : "the parameter '" + name + "' has no value here";
  }
  if (may.element && name == kElementIndex) return "";
  const std::string dimension = name.starts_with("problem.") ? name.substr(8) : name;
  const bool is_dimension = find_dimension(description, dimension) != nullptr;
  const auto& fields = description.call.integers;
  const bool is_field = std::ranges::find(fields, name, &CallField::name) != fields.end();
  if (name.starts_with("call.") || (is_field && !is_dimension))
    return may.call ? "" : "'" + name + "' has no value here: a call states it later";
  if (name.starts_with("device.")) {
    if (!may.device) return "'" + name + "' has no value here";
    std::vector<std::string> known;
    for (const auto& [other, ignored] : expression_environment({}, {})) known.push_back(other);
    return std::find(known.begin(), known.end(), name) == known.end() ? unknown_name("name", name, known) : "";
  }
  if (!is_dimension) {
    std::vector<std::string> known;
    for (const Dimension& one : description.schema) known.push_back(one.name);
    return unknown_name("dimension", dimension, known);
  }
  const auto& free = description.free_dimensions;
  if (!may.free_dimensions && std::find(free.begin(), free.end(), dimension) != free.end())
    return "the dimension '" + dimension + "' is free: no cubin has it compiled in";
  return "";
}

std::vector<Formula> read_formulas(const JsonPlace& place, Description& description, std::size_t most) {
  std::vector<Formula> formulas;
  if (!place.value().is_array()) return {read_formula(place, description)};
  for (const JsonPlace& element : place.elements(most)) formulas.push_back(read_formula(element, description));
  if (formulas.empty()) place.fail("is empty");
  return formulas;
}

// Reads one program's launches.
class LaunchReader {
 public:
  LaunchReader(Description& description, DescribedProgram& program) : description_(description), program_(program) {}

  void read(const JsonPlace& place) {
    if (place.find("memset") || place.find("symbol")) return read_memset(place);
    place.allow_only({"when", "entry", "grid", "block", "cluster", "shared", "dependent", "arguments"});
    if (++launches_ > decltype(LaunchPlan::launches)::capacity()) place.fail("is one launch too many: at most 8");
    DescribedLaunch launch;
    read_when(place, launch);
    read_entry(place.at("entry"), launch);
    launch.grid = read_formulas(place.at("grid"), description_, 3);
    launch.block = read_formulas(place.at("block"), description_, 3);
    if (const auto cluster = place.find("cluster")) launch.cluster = read_formulas(*cluster, description_, 3);
    if (const auto shared = place.find("shared")) launch.shared = read_formula(*shared, description_);
    if (const auto dependent = place.find("dependent")) launch.dependent = dependent->boolean();
    for (const JsonPlace& argument : place.at("arguments").elements(decltype(Launch::arguments)::capacity())) {
      launch.arguments.push_back(read_argument(argument, launch.arguments.size()));
      const auto kind = launch.arguments.back().kind;
      const bool is_large = kind == DescribedArgument::Kind::map || kind == DescribedArgument::Kind::fields;
      if (++(is_large ? large_ : scalars_) > (is_large ? LaunchPlan::kMaxLarge : LaunchPlan::kMaxScalars))
        argument.fail("is one argument too many: all launches take at most 8 maps and structs, and 120 others");
    }
    program_.launches.push_back(std::move(launch));
  }

 private:
  void read_when(const JsonPlace& place, DescribedLaunch& launch) {
    if (const auto when = place.find("when")) launch.when = read_formula(*when, description_);
  }

  void read_memset(const JsonPlace& place) {
    const auto symbol = place.find("symbol");
    symbol ? place.allow_only({"when", "symbol", "of", "bytes"})
           : place.allow_only({"when", "memset", "bytes", "value"});
    if (++memsets_ > decltype(LaunchPlan::memsets)::capacity())
      place.fail("is one memset too many: at most 8, with copies to symbols");
    DescribedLaunch memset{.is_memset = true};
    read_when(place, memset);
    if (symbol) memset.symbol = Name(read_name(*symbol));
    memset.buffer = read_buffer(place.at(symbol ? "of" : "memset"), memset.tensor);
    if (const auto bytes = place.find("bytes")) memset.bytes = read_formula(*bytes, description_);
    if (!memset.bytes && !memset.tensor) place.fail("lacks the key 'bytes': of a scratch it must say how many");
    if (const auto value = place.find("value")) memset.value = static_cast<std::uint8_t>(value->integer(0, 255));
    program_.launches.push_back(std::move(memset));
  }

  // "gemm<T, bm, bn>": the name, and the instance if it is of a template.
  void read_entry(const JsonPlace& place, DescribedLaunch& launch) {
    const std::string text = place.text();
    if (text.size() > kLongestEntry) place.fail("is longer than 256 characters");
    const std::string name = text.substr(0, text.find('<'));
    for (std::size_t begin = 0, end; begin <= name.size(); begin = end + 2) {
      end = std::min(name.find("::", begin), name.size());
      if (!is_word(std::string_view(name).substr(begin, end - begin)))
        place.fail("must be a function's name, with template arguments behind it if it has some" + place.shown());
    }
    if (name.size() > EntryName::kCapacity) place.fail("has a name of more than 63 characters" + place.shown());
    launch.entry = EntryName(name);
    const bool is_instance = name.size() < text.size();
    if (is_instance && text.find_first_of("\"\\\n;{}#") != std::string::npos)
      place.fail("must have types and numbers between < and >" + place.shown());
    for (const std::string& other : program_.instances) {
      const bool same_template = other.substr(0, other.find('<')) == name;
      if (same_template && other != text)
        place.fail("is another instance of a template that is launched: give one of them a name of its own");
    }
    const bool known =
        std::find(program_.instances.begin(), program_.instances.end(), text) != program_.instances.end();
    if (is_instance && !known) program_.instances.push_back(text);
  }

  Name read_buffer(const JsonPlace& place, std::optional<std::size_t>& tensor) const {
    const std::string name = place.text();
    std::vector<std::string> known;
    for (std::size_t i = 0; i < description_.tensors.size(); ++i) {
      known.push_back(description_.tensors[i].name);
      if (known.back() == name) tensor = i;
    }
    for (const DescribedScratch& scratch : description_.scratch) known.push_back(scratch.name.text());
    if (std::find(known.begin(), known.end(), name) == known.end())
      place.fail("names no tensor and no scratch: " + unknown_name("buffer", name, known));
    return Name(name);
  }

  DescribedArgument read_argument(const JsonPlace& place, std::size_t position) {
    DescribedArgument argument;
    argument.name = Name("argument" + std::to_string(position));
    if (place.value().is_string()) {
      argument.buffer = argument.name = read_buffer(place, argument.tensor);
      return argument;
    }
    if (const auto buffer = place.find("pointer")) {
      place.allow_only({"pointer", "offset"});
      argument.buffer = argument.name = read_buffer(*buffer, argument.tensor);
      argument.value = read_formula(place.at("offset"), description_);
      return argument;
    }
    if (const auto map = place.find("map")) {
      read_map(place, *map, argument);
      return argument;
    }
    if (const auto fields = place.find("struct")) {
      place.allow_only({"struct"});
      read_fields(*fields, argument);
      return argument;
    }
    read_number(place, argument, "a buffer's name, or an object with pointer, map, struct, or one of ");
    return argument;
  }

  // As C++ lays them out: each number is aligned to its size.
  void read_fields(const JsonPlace& place, DescribedArgument& argument) {
    constexpr std::size_t kMostOfStruct = decltype(StructValue::words)::capacity() * sizeof(std::uint64_t);
    argument.kind = DescribedArgument::Kind::fields;
    std::size_t end = 0;
    for (const JsonPlace& field : place.elements(kMostOfStruct)) {
      DescribedArgument& read = argument.fields.emplace_back();
      read_number(field, read, "an object with one of ");
      end = (end + read.bytes - 1) / read.bytes * read.bytes + read.bytes;
      if (end > kMostOfStruct) field.fail("ends past byte 128, and a struct has at most so many");
    }
    if (end == 0) place.fail("is empty");
  }

  void read_number(const JsonPlace& place, DescribedArgument& argument, const std::string& expected) {
    static const std::vector<std::string> kScalars = {"i8",  "u8",  "i16", "u16", "i32",
                                                      "u32", "i64", "u64", "f32", "f64"};
    const auto members = place.value().is_object() ? place.members(2) : decltype(place.members(2))();
    if (members.size() != 1 || std::find(kScalars.begin(), kScalars.end(), members[0].first) == kScalars.end())
      place.fail("must be " + expected + "i8, u8, i16, u16, i32, u32, i64, u64, f32 and f64" + place.shown());
    read_scalar(members[0].first, members[0].second, argument);
  }

  void read_scalar(const std::string& type, const JsonPlace& place, DescribedArgument& argument) {
    using Kind = DescribedArgument::Kind;
    const bool real = type[0] == 'f', wide = type.ends_with("64");
    argument.bytes = static_cast<std::uint8_t>(std::stoi(type.substr(1)) / 8);
    argument.kind = real ? (wide ? Kind::f64 : Kind::f32) : wide ? Kind::i64 : Kind::i32;
    if (!real) {
      argument.value = read_formula(place, description_);
      return;
    }
    if (place.value().is_number()) {
      argument.real = place.value().get<double>();
      if (!(std::abs(argument.real) <= 1e38)) place.fail("must be a number of at most 1e38" + place.shown());
      return;
    }
    const std::string text = place.text();
    for (std::size_t i = 0; i < description_.call.reals.size(); ++i)
      if (text == "call." + description_.call.reals[i].name) argument.field = i;
    if (!argument.field) argument.value = read_formula(place, description_);
  }

  void read_map(const JsonPlace& place, const JsonPlace& map, DescribedArgument& argument) {
    place.allow_only({"map", "dims", "box", "strides", "swizzle", "offset"});
    argument.kind = DescribedArgument::Kind::map;
    argument.buffer = argument.name = read_buffer(map, argument.tensor);
    if (!argument.tensor) map.fail("must be a tensor" + map.shown());
    argument.dims = read_formulas(place.at("dims"), description_, TensorMap::kMaxRank);
    argument.box = read_formulas(place.at("box"), description_, TensorMap::kMaxRank);
    if (argument.box.size() != argument.dims.size()) place.at("box").fail("must have as many elements as dims");
    if (const auto strides = place.find("strides")) {
      argument.strides = read_formulas(*strides, description_, TensorMap::kMaxRank - 1);
      if (argument.strides.size() + 1 != argument.dims.size()) strides->fail("must have one element less than dims");
    }
    if (const auto offset = place.find("offset")) argument.value = read_formula(*offset, description_);
    const std::vector<std::string> names = {"none", "b32", "b64", "b128"};
    if (const auto swizzle = place.find("swizzle")) {
      const auto found = std::find(names.begin(), names.end(), swizzle->text());
      if (found == names.end()) swizzle->fail("must be none, b32, b64 or b128" + swizzle->shown());
      argument.swizzle = static_cast<TensorMap::Swizzle>(found - names.begin());
    }
  }

  Description& description_;
  DescribedProgram& program_;
  std::size_t launches_ = 0, memsets_ = 0, large_ = 0, scalars_ = 0;
};

}  // namespace

std::string read_name(const JsonPlace& place) {
  const std::string name = place.text();
  if (!is_word(name) || name.size() > Name::kCapacity)
    place.fail("must be a name of letters, digits and _, at most 31 of them" + place.shown());
  return name;
}

Formula read_formula(const JsonPlace& place, Description& description) {
  if (description.formulas.size() == kMostFormulas) place.fail("is one expression too many: at most 2048");
  const std::string text = place.value().is_number_integer() ? place.value().dump() : place.text();
  Vocabulary& vocabulary = description.space.vocabulary;
  description.formulas.push_back(Expression::parse(text, place.where(), vocabulary));
  if (vocabulary.size() > kMaxDescribedNames) place.fail("names one thing too many: at most 1024");
  return description.formulas.size() - 1;
}

TypeChoice read_type(const JsonPlace& place, const Description& description) {
  const std::string text = place.text();
  if (!text.starts_with("problem.")) {
    try {
      return {dtype_from_name(text), ""};
    } catch (const BadInput& error) {
      place.fail(std::string("must be a type or problem.NAME: ") + error.what());
    }
  }
  const Dimension* const dimension = find_dimension(description, text.substr(8));
  if (dimension == nullptr || dimension->names.empty())
    place.fail("must be a type, or a dimension with choices" + place.shown());
  try {
    for (const std::string& name : dimension->names)
      if (is_integer(dtype_from_name(name)) != is_integer(dtype_from_name(dimension->names.front())))
        place.fail("must name a dimension whose choices are all integers or none" + place.shown());
  } catch (const BadInput& error) {
    place.fail(std::string("must name a dimension whose choices are types: ") + error.what());
  }
  return {dtype_from_name(dimension->default_value.name), dimension->name};
}

void check_reads(const Expression& expression, const Description& description, const MayRead& may) {
  for (const Slot slot : slots_read(expression, description.space)) {
    const std::string reason = why_unreadable(description.space.vocabulary[slot], description, may);
    if (!reason.empty()) throw_at(expression.where(), expression.text(), expression.column_of(slot), reason);
  }
}

DescribedProgram read_program(const JsonPlace& place, Description& description) {
  DescribedProgram program;
  const JsonPlace source = place.at("source");
  program.source = source.text();
  if (leaves_folder(program.source) || !program.source.ends_with(".cu"))
    source.fail("must be a .cu file in the kernel's folder" + source.shown());
  program.formulas.begin = description.formulas.size();
  LaunchReader reader(description, program);
  const JsonPlace launches = place.at("launches");
  for (const JsonPlace& launch : launches.elements(16)) reader.read(launch);
  const bool launches_any = std::any_of(program.launches.begin(), program.launches.end(),
                                        [](const DescribedLaunch& one) { return !one.is_memset; });
  if (!launches_any) launches.fail("must launch something");
  program.formulas.end = description.formulas.size();
  return program;
}

}  // namespace moetune
