#include "kernels/described/description.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "base/error.h"
#include "base/located_json.h"
#include "base/resources.h"
#include "base/suggest.h"
#include "kernels/described/description_reader.h"
#include "kernels/family_interface.h"

namespace moetune {
namespace {

constexpr std::size_t kMostProblemDimensions = 32, kMostTensors = 16, kMostRank = TensorView::kMaxRank,
                      kMostListed = 64;
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

// Reads the parts that are no launches.
class PartsReader {
 public:
  PartsReader(const JsonPlace& top, Description& description) : top_(top), description_(description) {}

  void read() {
    top_.allow_only({"kernel", "doc",      "syntax",  "source",   "problem",    "presets", "rules",
                     "call",   "types",    "macros",  "tensors",  "parameters", "let",     "constraints",
                     "bases",  "defaults", "scratch", "launches", "reference",  "cost"});
    description_.name = read_name(top_.at("kernel"));
    description_.summary = text_or(top_, "doc", "described by " + description_.file);
    read_problem();
    read_call();
    read_presets();
    description_.of_problem.begin = description_.formulas.size();
    read_tensors();
    read_rules();
    read_cost();
    description_.of_problem.end = description_.formulas.size();
    read_scratch();
    read_types();
    read_macros();
    const Formula before = scratch_begin_;
    description_.program = read_program(top_, description_);
    description_.program.formulas.begin = before;
    read_reference(top_.at("reference"));
    check_all_reads();
  }

 private:
  static std::string text_or(const JsonPlace& place, const std::string& key, std::string otherwise) {
    const auto found = place.find(key);
    return found ? found->text() : std::move(otherwise);
  }

  std::vector<JsonPlace> list(const std::string& key, std::size_t most) const {
    const auto found = top_.find(key);
    return found ? found->elements(most) : std::vector<JsonPlace>();
  }

  std::string new_name(const JsonPlace& place, std::set<std::string>& names) const {
    std::string name = read_name(place);
    if (!names.insert(name).second) place.fail("stands here for the second time" + place.shown());
    return name;
  }

  void read_problem() {
    std::set<std::string> names;
    for (const JsonPlace& place : top_.at("problem").elements(kMostProblemDimensions)) {
      place.allow_only({"name", "doc", "default", "range", "choices", "free"});
      Dimension dimension;
      dimension.name = new_name(place.at("name"), names);
      dimension.doc = text_or(place, "doc", "");
      const auto choices = place.find("choices");
      choices ? read_choices(place, *choices, dimension) : read_range(place, dimension);
      if (const auto free = place.find("free"); free && free->boolean()) {
        if (choices) free->fail("is for integers: a cubin has names compiled in");
        if (description_.free_dimensions.size() == Extents::capacity())
          free->fail("is one too many: at most 4 dimensions are free");
        description_.free_dimensions.push_back(dimension.name);
      }
      // Launches may name a dimension without "problem.", unless something else has its name.
      description_.space.vocabulary.add_environment(dimension.name);
      description_.schema.push_back(std::move(dimension));
    }
  }

  static void read_choices(const JsonPlace& place, const JsonPlace& choices, Dimension& dimension) {
    std::set<std::string> names;
    for (const JsonPlace& choice : choices.elements(kMostListed)) {
      dimension.names.push_back(read_name(choice));
      if (!names.insert(dimension.names.back()).second) choice.fail("stands here for the second time" + choice.shown());
    }
    if (dimension.names.empty()) choices.fail("is empty");
    const std::string chosen = text_or(place, "default", dimension.names.front());
    const auto found = std::find(dimension.names.begin(), dimension.names.end(), chosen);
    if (found == dimension.names.end())
      place.at("default").fail("must be one of the choices" + place.at("default").shown());
    dimension.default_value = Value::named(chosen, found - dimension.names.begin());
    if (place.find("range")) place.fail("has both a range and choices");
  }

  static void read_range(const JsonPlace& place, Dimension& dimension) {
    dimension.minimum = 1;
    dimension.maximum = INT32_MAX;
    if (const auto range = place.find("range")) {
      const std::vector<JsonPlace> ends = range->elements(2);
      if (ends.size() != 2) range->fail("must be [least, most]" + range->shown());
      dimension.minimum = ends[0].integer(0, kLargest);
      dimension.maximum = ends[1].integer(dimension.minimum, kLargest);
    }
    dimension.default_value = Value::integer(place.at("default").integer(dimension.minimum, dimension.maximum));
  }

  void read_call() {
    for (const JsonPlace& place : list("call", Call::kMaxIntegers + Call::kMaxReals)) {
      place.allow_only({"name", "doc", "type", "default"});
      const CallField field{new_name(place.at("name"), call_fields_), text_or(place, "doc", "")};
      const std::string type = place.at("type").text();
      const JsonPlace value = place.at("default");
      auto& fields = type == "f32" ? description_.call.reals : description_.call.integers;
      if (type != "f32" && type != "i64") place.at("type").fail("must be f32 or i64" + place.at("type").shown());
      if (fields.size() == (type == "f32" ? Call::kMaxReals : Call::kMaxIntegers))
        place.fail("is one field too many: a call has at most 24 of i64 and 4 of f32");
      if (type == "f32") {
        if (!value.value().is_number()) value.fail("must be a number" + value.shown());
        description_.default_call.reals[fields.size()] = value.value().get<double>();
      } else {
        description_.default_call.integers[fields.size()] = value.integer(-kLargest, kLargest);
        description_.space.vocabulary.add_environment("call." + field.name);
        description_.space.vocabulary.add_environment(field.name);  // as of dimensions, which go before
      }
      fields.push_back(field);
    }
  }

  void read_presets() {
    for (const JsonPlace& place : list("presets", kMostListed)) {
      place.allow_only({"name", "doc", "problem"});
      Preset preset{place.at("name").text(), text_or(place, "doc", ""), {}};
      try {
        preset.dims = split_assignment(place.at("problem").text(), "the preset");
        parse_problem(description_.name, description_.schema, &preset, "");
      } catch (const BadInput& error) {
        place.at("problem").fail(std::string("is no problem: ") + error.what());
      }
      description_.presets.push_back(std::move(preset));
    }
  }

  void read_tensors() {
    for (const JsonPlace& place : top_.at("tensors").elements(kMostTensors)) {
      place.allow_only(
          {"name", "dtype", "shape", "strides", "align", "when", "role", "cold", "fresh", "fill", "check"});
      DescribedTensor tensor;
      tensor.name = new_name(place.at("name"), buffers_);
      tensor.type = read_type(place.at("dtype"), description_);
      for (const JsonPlace& size : place.at("shape").elements(kMostRank)) {
        const auto any = size.value().is_object() ? size.find("any") : std::nullopt;
        if (any) {
          size.allow_only({"any", "interleaved"});
          if (!tensor.shape.empty()) size.fail("is for the first dimension alone");
          tensor.any.insert(tensor.shape.size());
          if (const auto interleaved = size.find("interleaved")) tensor.interleaved = interleaved->boolean();
        }
        tensor.shape.push_back(read_formula(any ? *any : size, description_));
      }
      read_strides(place, tensor);
      if (const auto align = place.find("align")) tensor.alignment = align->integer(1, 16);
      if (!std::has_single_bit(static_cast<std::uint64_t>(tensor.alignment)))
        place.at("align").fail("must be 1, 2, 4, 8 or 16" + place.at("align").shown());
      if (const auto when = place.find("when")) tensor.when = read_formula(*when, description_);
      const std::string role = text_or(place, "role", "input");
      if (role != "input" && role != "output" && role != "inout")
        place.at("role").fail("must be input, output or inout" + place.at("role").shown());
      tensor.role = role == "input" ? Role::input : role == "output" ? Role::output : Role::in_out;
      tensor.cold = tensor.role == Role::input;
      if (const auto cold = place.find("cold")) {
        if (cold->value().is_string()) tensor.cold_if = read_formula(*cold, description_);
        tensor.cold = tensor.cold && (tensor.cold_if || cold->boolean());
      }
      if (const auto fresh = place.find("fresh")) tensor.fresh = fresh->boolean() && tensor.role == Role::input;
      read_fill(place, description_, tensor);
      read_check(place, tensor);
      description_.tensors.push_back(std::move(tensor));
    }
    const auto& tensors = description_.tensors;
    if (std::none_of(tensors.begin(), tensors.end(), [](const auto& one) { return one.role != Role::input; }))
      top_.at("tensors").fail("must hold an output");
  }

  // Names that become fields of the call.
  void read_strides(const JsonPlace& place, DescribedTensor& tensor) {
    const auto strides = place.find("strides");
    if (!strides) return;
    auto& fields = description_.call.integers;
    for (const JsonPlace& stride : strides->elements(tensor.shape.size())) {
      if (fields.size() == Call::kMaxIntegers) stride.fail("is one field too many: a call has at most 24 of i64");
      std::string name = new_name(stride, call_fields_);
      description_.space.vocabulary.add_environment("call." + name);
      description_.space.vocabulary.add_environment(name);
      tensor.strides.push_back(fields.size());
      fields.push_back({std::move(name), "elements of '" + tensor.name + "' from one index to the next"});
    }
  }

  void read_check(const JsonPlace& place, DescribedTensor& tensor) {
    const auto check = place.find("check");
    if (tensor.role == Role::input) {
      if (check) check->fail("is for what is written");
      return;
    }
    using Kind = OutputCheck::Kind;
    const bool integers = is_integer(tensor.type.type);
    if (!check) {
      tensor.check = integers ? Kind::exact : Kind::tolerance;
      return;
    }
    if (check->value().is_string()) {
      if (check->text() != "exact") check->fail("must be exact, or an object" + check->shown());
      return;
    }
    check->allow_only({"sets_of", "terms", "error", "dissimilarity", "baseline_factor"});
    if (const auto length = check->find("sets_of")) {
      if (check->value().size() > 1) check->fail("has sets_of, which needs no tolerance");
      if (!integers) length->fail("is for integers");
      tensor.check = Kind::set_per_segment;
      tensor.segments = read_formula(*length, description_);
      return;
    }
    if (integers) check->fail("is for floating-point outputs: integers are checked exactly, or by sets_of");
    tensor.check = Kind::tolerance;
    if (const auto terms = check->find("terms")) tensor.terms = read_formula(*terms, description_);
    if (const auto error = check->find("error")) tensor.error = error->positive();
    if (tensor.terms && tensor.error) check->fail("has both terms and error, which bound the same");
    if (const auto limit = check->find("dissimilarity")) tensor.tolerance.dissimilarity = limit->positive();
    if (const auto factor = check->find("baseline_factor")) tensor.tolerance.baseline_factor = factor->positive();
  }

  void read_rules() {
    for (const JsonPlace& place : list("rules", kMostListed)) {
      place.allow_only({"expr", "why"});
      description_.rules.push_back({read_formula(place.at("expr"), description_), place.at("why").text()});
    }
  }

  void read_cost() {
    const auto cost = top_.find("cost");
    if (!cost) return;
    cost->allow_only({"read_bytes", "written_bytes", "flops"});
    if (const auto bytes = cost->find("read_bytes")) description_.cost.read_bytes = read_formula(*bytes, description_);
    if (const auto bytes = cost->find("written_bytes"))
      description_.cost.written_bytes = read_formula(*bytes, description_);
    const auto flops = cost->find("flops");
    if (!flops) return;
    for (const auto& [type, count] : flops->members(8)) {
      const LocatedJson word(nlohmann::json(type).dump(), description_.file + ": cost.flops");
      description_.cost.flops.emplace_back(read_type(word.root(), description_), read_formula(count, description_));
    }
  }

  void read_scratch() {
    scratch_begin_ = description_.formulas.size();
    for (const JsonPlace& place : list("scratch", decltype(LaunchPlan::scratch)::capacity())) {
      place.allow_only({"name", "bytes", "zeroed"});
      DescribedScratch scratch{Name(new_name(place.at("name"), buffers_)),
                               read_formula(place.at("bytes"), description_)};
      if (const auto zeroed = place.find("zeroed")) scratch.zeroed = zeroed->boolean();
      description_.scratch.push_back(scratch);
    }
  }

  void read_types() {
    macros_.insert("EXACT");
    for (const Parameter& parameter : description_.space.parameters) macros_.insert(parameter.name);
    const auto types = top_.find("types");
    if (!types) return;
    for (const auto& [macro, place] : types->members(kMostListed)) {
      check_macro(macro, place);
      DescribedType type{macro, "", {}};
      if (place.value().is_string()) {
        const TypeChoice choice = read_type(place, description_);
        if (choice.dimension.empty()) {
          type.types = {{"", std::string(cuda_type(choice.type))}};
        } else {
          type.of = choice.dimension;
          for (const std::string& name : names_of(choice.dimension))
            type.types.emplace_back(name, cuda_type(dtype_from_name(name)));
        }
      } else {
        read_type_table(place, type);
      }
      description_.types.push_back(std::move(type));
    }
  }

  const std::vector<std::string>& names_of(const std::string& dimension) const {
    return std::find_if(description_.schema.begin(), description_.schema.end(),
                        [&](const Dimension& one) { return one.name == dimension; })
        ->names;
  }

  // {"problem.dtype": {"bf16": "Bf16", "f16": "Fp16"}}
  void read_type_table(const JsonPlace& place, DescribedType& type) {
    const auto members = place.members(1);
    const std::string of = members.empty() ? "" : members[0].first;
    const auto dimension = std::find_if(description_.schema.begin(), description_.schema.end(),
                                        [&](const Dimension& one) { return of == "problem." + one.name; });
    if (dimension == description_.schema.end() || dimension->names.empty())
      place.fail("must be a type, or an object whose one key is problem.NAME of a dimension with choices" +
                 place.shown());
    type.of = dimension->name;
    for (const std::string& name : dimension->names) {
      const JsonPlace cuda = members[0].second.at(name);
      const std::string text = cuda.text();
      if (text.empty() || text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_: ") !=
                              std::string::npos)
        cuda.fail("must be a type's name" + cuda.shown());
      type.types.emplace_back(name, text);
    }
  }

  void read_macros() {
    const auto macros = top_.find("macros");
    if (!macros) return;
    for (const auto& [name, place] : macros->members(kMostListed)) {
      check_macro(name, place);
      description_.macros.push_back({name, read_formula(place, description_)});
    }
  }

  void check_macro(const std::string& name, const JsonPlace& place) {
    const LocatedJson word(nlohmann::json(name).dump(), description_.file);
    read_name(word.root());
    if (!macros_.insert(name).second) place.fail("has the name of another macro; parameters are macros, too");
  }

  void read_reference(const JsonPlace& place) {
    if (const auto config = place.find("config")) {
      place.allow_only({"config"});
      read_reference_config(*config);
      return;
    }
    if (const auto arrays = place.find("arrays")) {
      place.allow_only({"arrays"});
      return read_answers(*arrays);
    }
    place.allow_only({"source", "baseline", "launches"});
    if (const auto baseline = place.find("baseline")) description_.has_baseline = baseline->boolean();
    description_.reference = read_program(place, description_);
    for (const DescribedLaunch& launch : description_.reference.launches) {
      for (const DescribedArgument& argument : launch.arguments)
        if (!argument.buffer.empty() && !argument.tensor)
          place.fail("takes the scratch '" + argument.buffer.text() + "', which it does not have");
      if (launch.is_memset && !launch.tensor)
        place.fail("sets the scratch '" + launch.buffer.text() + "', which it does not have");
    }
    if (!description_.has_baseline) require_own_types(place, "without \"baseline\": true");
  }

  void read_reference_config(const JsonPlace& place) {
    Config config;
    try {
      for (const auto& [name, value] : split_assignment(place.text(), "the reference's configuration")) {
        const auto& parameters = description_.space.parameters;
        const auto found = std::find_if(parameters.begin(), parameters.end(),
                                        [&, wanted = name](const Parameter& one) { return one.name == wanted; });
        if (found == parameters.end()) throw BadInput("it has no parameter '" + name + "'");
        config.set(name, value_from_text(*found, value));
      }
    } catch (const BadInput& error) {
      place.fail(std::string("is no configuration: ") + error.what());
    }
    for (const Parameter& parameter : description_.space.parameters)
      if (config.find(parameter.name) == nullptr) place.fail("lacks a value for '" + parameter.name + "'");
    description_.reference_config = config;
    require_own_types(place, "that is a configuration");
  }

  // {"c": ["c.0.npy", "c.1.npy"]}: what each written tensor holds for the inputs of the same position.
  void read_answers(const JsonPlace& place) {
    std::size_t most = 1, answers = 0;
    for (const DescribedTensor& tensor : description_.tensors) most = std::max(most, tensor.files.size());
    for (const auto& [name, files] : place.members(kMostTensors)) {
      const auto found = std::ranges::find(description_.tensors, name, &DescribedTensor::name);
      if (found == description_.tensors.end() || found->role == Role::input)
        files.fail("is of no tensor that is written");
      found->answers = read_files(files);
      if (found->answers.size() != most)
        files.fail("must name as many files as the inputs have: " + std::to_string(most));
      ++answers;
    }
    if (answers > LaunchPlan().launches.capacity()) place.fail("has more than 8 tensors");
    for (const DescribedTensor& tensor : description_.tensors) {
      if (tensor.role != Role::input && tensor.answers.empty()) place.fail("lacks the tensor '" + tensor.name + "'");
      if (tensor.role != Role::output && tensor.files.empty() && tensor.fill != Fill::Kind::zeros &&
          tensor.fill != Fill::Kind::constant)
        place.fail("is of inputs that are drawn: '" + tensor.name + "' must have files, zeros or a constant");
    }
    description_.has_answers = true;
    require_error_bound(place);
  }

  // A reference that does not round writes floats of 32 bits, and has no other version.
  void require_own_types(const JsonPlace& place, const std::string& which) const {
    for (const DescribedTensor& tensor : description_.tensors) {
      if (tensor.role == Role::input ||
          (tensor.type.dimension.empty() && exact_dtype(tensor.type.type) == tensor.type.type))
        continue;
      if (!tensor.type.dimension.empty() &&
          std::ranges::all_of(names_of(tensor.type.dimension), [](const std::string& name) {
            return exact_dtype(dtype_from_name(name)) == dtype_from_name(name);
          }))
        continue;
      place.fail("judges '" + tensor.name + "', whose type has less than 32 bits: a reference " + which + " cannot");
    }
    require_error_bound(place);
  }

  void require_error_bound(const JsonPlace& place) const {
    for (const DescribedTensor& tensor : description_.tensors)
      if (tensor.check == OutputCheck::Kind::tolerance && tensor.role != Role::input && !tensor.terms && !tensor.error)
        place.fail("leaves open how far '" + tensor.name +
                   "' may be off: give its check \"terms\" or \"error\", or \"exact\"");
  }

  void check_range(const FormulaRange& range, const MayRead& may) const {
    for (Formula formula = range.begin; formula < range.end; ++formula)
      check_reads(description_.formulas[formula], description_, may);
  }

  void check_range_of_problem() const {
    std::set<Formula> of_elements;
    for (const DescribedTensor& tensor : description_.tensors)
      if (tensor.element) of_elements.insert(*tensor.element);
    const FormulaRange& range = description_.of_problem;
    for (Formula formula = range.begin; formula < range.end; ++formula)
      check_reads(description_.formulas[formula], description_, {.element = of_elements.contains(formula)});
  }

  void check_all_reads() {
    const SpaceFile& space = description_.space;
    const MayRead of_space{.parameters = true, .device = true};
    for (const SpaceFile::Constraint& constraint : space.constraints)
      check_reads(constraint.expression, description_, of_space);
    for (const SpaceFile::Gate& gate : space.gates) check_reads(gate.condition, description_, of_space);
    for (const SpaceFile::Let& let : space.lets) check_reads(let.expression, description_, of_space);
    for (const SpaceFile::Default& rule : space.defaults)
      if (rule.when) check_reads(*rule.when, description_, of_space);
    check_range_of_problem();
    for (const DescribedTensor& tensor : description_.tensors)
      if (tensor.when) check_reads(description_.formulas[*tensor.when], description_, {.free_dimensions = false});
    check_range(description_.program.formulas, {.parameters = true, .device = true, .call = true});
    check_range(description_.reference.formulas, {.device = true, .call = true});
    for (DescribedMacro& macro : description_.macros) {
      const Expression& value = description_.formulas[macro.value];
      check_reads(value, description_,
                  {.parameters = true, .launch_parameters = false, .device = true, .free_dimensions = false});
      try {
        check_reads(value, description_, {.device = true});
      } catch (const BadInput&) {
        macro.of_configuration = true;
      }
    }
  }

  const JsonPlace top_;
  Description& description_;
  std::set<std::string> buffers_, macros_;
  std::set<std::string> call_fields_;
  Formula scratch_begin_ = 0;
};

}  // namespace

Description read_description(std::string text, const std::string& file, const std::string& folder_name) {
  if (text.size() > kMaxDescription) throw BadInput(file + " is larger than 1 MiB");
  Description description;
  description.file = file;
  const LocatedJson document(std::move(text), file);
  if (!document.root().find("launches")) document.root().at("launches");
  description.space = read_space_file(document.root().value().dump(), file);
  PartsReader(document.root(), description).read();
  if (description.name != folder_name)
    document.root().at("kernel").fail("must be '" + folder_name + "', as the folder is named" +
                                      document.root().at("kernel").shown());
  return description;
}

std::string_view cuda_type(DType type) {
  static const std::map<DType, std::string_view> types = {
      {DType::f32, "float"},          {DType::f64, "double"},
      {DType::f16, "__half"},         {DType::bf16, "__nv_bfloat16"},
      {DType::e4m3, "__nv_fp8_e4m3"}, {DType::i8, "signed char"},
      {DType::u8, "unsigned char"},   {DType::i16, "short"},
      {DType::u16, "unsigned short"}, {DType::i32, "int"},
      {DType::u32, "unsigned int"},   {DType::i64, "long long"}};
  return types.at(type);
}

DType type_of(const TypeChoice& choice, const Assignment& problem) {
  return choice.dimension.empty() ? choice.type : dtype_from_name(problem.at(choice.dimension).name);
}

}  // namespace moetune
