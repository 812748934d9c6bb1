#include "replay/kernel_import.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/lists.h"
#include "base/located_json.h"
#include "kernels/described/description.h"
#include "kernels/name.h"
#include "replay/annotated_source.h"
#include "replay/compressed_file.h"
#include "replay/json_rows.h"
#include "replay/objective_choice.h"
#include "replay/recording.h"
#include "search/python_parser.h"
#include "search/space.h"

namespace moetune {
namespace {

using Document = nlohmann::ordered_json;

constexpr std::size_t kMostDescription = std::size_t{4} << 20;
constexpr std::size_t kMostConditions = 1024, kMostArguments = 64, kMostImported = 128;
constexpr double kImportedError = 1e-4;  // of an output, as a share of its largest value

// A word of at most 31 letters, digits and _, not a digit first.
std::string word_of(std::string_view text) {
  std::string word;
  for (const char c : text.substr(0, Name::kCapacity)) word += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (word.empty() || std::isdigit(static_cast<unsigned char>(word[0]))) word = "kernel";
  return word;
}

Document document_of(const Parameter& parameter) {
  Document values = Document::array();
  for (const Value& value : parameter.values)
    values.push_back(value.is_named() ? Document(value.name) : Document(value.number));
  return {{"name", parameter.name}, {"values", values}};
}

// Counts what is legal, and gives the first such configuration as the default if there is none, or it is illegal.
void count_legal(ImportedKernel& kernel, const std::string& file) {
  Document space = {{"kernel", kernel.name}};
  for (const char* const key : {"syntax", "parameters", "let", "constraints", "defaults"})
    if (kernel.description.contains(key)) space[key] = kernel.description[key];
  Assignment sizes;  // that constraints may read
  for (const Document& size : kernel.description.value("problem", Document::array()))
    sizes.set("problem." + size["name"].get<std::string>(), Value::integer(size["default"].get<std::int64_t>()));
  const bool has_default = !space["defaults"].empty();
  if (!has_default) {
    Document first = Document::object();
    for (const Document& parameter : space["parameters"])
      if (!parameter["values"].empty()) first[parameter["name"].get<std::string>()] = parameter["values"][0];
    space["defaults"] = Document::array({{{"config", first}}});
  }
  const Space parsed = Space::parse(space.dump(), file);
  kernel.cartesian = 1;
  for (const Parameter& parameter : parsed.parameters())
    kernel.cartesian *= static_cast<double>(parameter.values.size());
  kernel.legal = parsed.count(sizes, Rules::all);
  if (kernel.legal == 0) throw BadInput(file + ": no configuration is legal: " + parsed.why_empty(sizes));
  const std::optional<Config> chosen = parsed.default_config(sizes);
  if (has_default && !chosen) kernel.left_out.push_back("its default is not legal: the first that is stands for it");
  Document config = Document::object();
  const Config first = chosen ? *chosen : parsed.enumerate(sizes).config(0);
  for (const Parameter& parameter : parsed.parameters()) {
    const Value& value = first.at(parameter.name);
    config[parameter.name] = value.is_named() ? Document(value.name) : Document(value.number);
  }
  kernel.description["defaults"] = Document::array({{{"config", config}}});
}

std::string default_text(const Document& description) {
  return joined(description["defaults"][0]["config"].items(), ",", [](const auto& one) {
    return one.key() + "=" + (one.value().is_string() ? one.value().template get<std::string>() : one.value().dump());
  });
}

// Its default is taken for right; says why it cannot be tuned yet.
void finish(ImportedKernel& kernel) {
  kernel.description["reference"] = {{"config", default_text(kernel.description)}};
  try {
    read_description(kernel.description.dump(), "kernel.json", kernel.name);
  } catch (const BadInput& error) {
    kernel.unfinished = error.what();
  }
}

class DescriptionImport {
 public:
  DescriptionImport(const LocatedJson& source, const std::string& file) : top_(source.root()), file_(file) {}

  ImportedKernel read() {
    const JsonPlace specification = top_.at("KernelSpecification");
    const std::string entry = text_at(specification, "KernelName", "kernel");
    kernel_.name = word_of(entry);
    Document& description = kernel_.description;
    description = {{"kernel", kernel_.name}, {"syntax", "python"}, {"source", kernel_.name + ".cu"}};
    kernel_.source = text_at(specification, "KernelFile", "");
    if (const std::string language = text_at(specification, "Language", "CUDA"); language != "CUDA")
      leave_out("the source is " + language + ", and has to be ported to CUDA");
    read_sizes(specification);
    description["tensors"] = Document::array();
    read_space(top_.at("ConfigurationSpace"));
    count_legal(kernel_, file_);
    read_arguments(specification);
    Document launch = {{"entry", entry}};
    read_launch(specification, launch);
    launch["arguments"] = arguments_;
    description["launches"] = std::move(symbols_);
    description["launches"].push_back(std::move(launch));
    if (description["tensors"].empty()) leave_out("it lists no arguments: add tensors, and arguments to the launch");
    for (const char* const key : {"ReferenceArguments", "ReferenceKernel"})
      if (specification.find(key))
        leave_out(std::string(key) + ": the default configuration is taken for right instead");
    kernel_.has_launch = true;
    finish(kernel_);
    return std::move(kernel_);
  }

 private:
  void leave_out(std::string sentence) { kernel_.left_out.push_back(std::move(sentence)); }

  static std::string text_at(const JsonPlace& place, const std::string& key, std::string otherwise) {
    const auto found = place.find(key);
    return found ? found->text() : std::move(otherwise);
  }

  // An expression, which may be written as a number.
  static std::string expression_at(const JsonPlace& place) {
    return place.value().is_number_integer() ? place.value().dump() : place.text();
  }

  // A constant expression of the sizes of the problem and the values of parameters: "ProblemSize[0] * max(width)".
  std::int64_t constant_at(const JsonPlace& place) const {
    std::vector<PythonName> names = {{"ProblemSize", sizes_}};
    for (const auto& [name, values] : values_) names.push_back({name, values});
    const auto found = python_list("[" + expression_at(place) + "]", place.where(), names);
    if (found.size() != 1 || !std::holds_alternative<std::int64_t>(found[0]))
      place.fail("must be a number" + place.shown());
    return std::get<std::int64_t>(found[0]);
  }

  void read_sizes(const JsonPlace& specification) {
    static constexpr std::array<const char*, 3> kSizeNames = {"size_x", "size_y", "size_z"};
    Document dimensions = Document::array();
    if (const auto sizes = specification.find("ProblemSize")) {
      for (const JsonPlace& one : sizes->elements(kSizeNames.size())) {
        const std::int64_t size = constant_at(one);
        dimensions.push_back({{"name", kSizeNames[sizes_.size()]}, {"default", size}, {"range", {size, size}}});
        sizes_.push_back(size);
      }
    }
    if (dimensions.empty()) dimensions.push_back({{"name", "size_x"}, {"default", 1}, {"range", {1, 1}}});
    kernel_.description["problem"] = std::move(dimensions);
  }

  void read_space(const JsonPlace& space) {
    Document parameters = Document::array(), config = Document::object();
    bool has_defaults = true;
    for (const JsonPlace& place : space.at("TuningParameters").elements(kMostImported)) {
      const std::string name = place.at("Name").text();
      Document values = values_at(place.at("Values"), name);
      const auto usual = place.find("Default");
      Document value = usual && usual->value().is_array() && usual->value().size() == 1 ? Document(usual->value()[0])
                       : usual                                                          ? Document(usual->value())
                                                                                        : Document();
      if (std::find(values.begin(), values.end(), value) == values.end()) {
        if (usual) leave_out("the default of '" + name + "' is none of its values");
        has_defaults = false;
      }
      config[name] = std::move(value);
      parameters.push_back({{"name", name}, {"values", std::move(values)}});
    }
    Document constraints = Document::array();
    if (const auto conditions = space.find("Conditions")) {
      for (const JsonPlace& place : conditions->elements(kMostConditions))
        constraints.push_back({{"expr", place.at("Expression").text()}, {"why", "a condition of " + file_name()}});
    }
    kernel_.description["parameters"] = std::move(parameters);
    kernel_.description["constraints"] = std::move(constraints);
    kernel_.description["defaults"] = has_defaults ? Document::array({{{"config", config}}}) : Document::array();
  }

  std::string file_name() const { return file_.substr(file_.find_last_of('/') + 1); }

  // "[2**i for i in range(6)]", or a list of JSON.
  Document values_at(const JsonPlace& place, const std::string& name) {
    if (place.value().is_array()) return Document(place.value());
    Document values = Document::array();
    std::vector<std::int64_t>& integers = values_[name];
    for (const auto& value : python_list(place.text(), place.where())) {
      if (const auto* const integer = std::get_if<std::int64_t>(&value)) {
        values.push_back(*integer);
        integers.push_back(*integer);
      } else {
        values.push_back(std::get<std::string>(value));
      }
    }
    return values;
  }

  void read_launch(const JsonPlace& specification, Document& launch) {
    const bool counts_threads = text_at(specification, "GlobalSizeType", "CUDA") == "OpenCL";
    Document block = Document::array(), grid = Document::array();
    const JsonPlace local = specification.at("LocalSize");
    const auto global = specification.find("GlobalSize");
    std::size_t axis = 0;
    for (const char* const name : {"X", "Y", "Z"}) {
      const auto size = local.find(name);
      const std::string threads = size ? expression_at(*size) : "1";
      block.push_back(threads);
      const auto divisors = specification.find(std::string("GridDiv") + name);
      if (divisors && axis < sizes_.size()) {
        std::string by;
        for (const JsonPlace& one : divisors->elements(kMostImported))
          by += (by.empty() ? "(" : " * (") + expression_at(one) + ")";
        const std::string blocks = kernel_.description["problem"][axis]["name"];
        grid.push_back(by.empty() ? blocks : "ceil_div(" + blocks + ", " + by + ")");
      } else if (const auto blocks = global ? global->find(name) : std::nullopt) {
        const std::string text = expression_at(*blocks);
        grid.push_back(counts_threads && text != threads ? "ceil_div(" + text + ", " + threads + ")" : text);
      } else {
        grid.push_back("1");
      }
      ++axis;
    }
    launch["grid"] = std::move(grid);
    launch["block"] = std::move(block);
    const auto shared = specification.find("SharedMemory");
    if (shared && expression_at(*shared) != "0") launch["shared"] = expression_at(*shared);
  }

  void read_arguments(const JsonPlace& specification) {
    const auto arguments = specification.find("Arguments");
    if (!arguments) return;
    std::size_t position = 0;
    for (const JsonPlace& place : arguments->elements(kMostArguments)) {
      const std::string name = word_of(text_at(place, "Name", "argument" + std::to_string(position++)));
      if (text_at(place, "MemoryType", "Vector") == "Scalar") {
        read_number(place, name);
      } else {
        read_vector(place, name);
      }
    }
  }

  // "uint32" is C++'s uint32_t.
  static const CudaType* find_type(const std::string& name) {
    const CudaType* const known = find_cuda_type(name);
    return known != nullptr ? known : find_cuda_type(name + "_t");
  }

  void read_number(const JsonPlace& place, const std::string& name) {
    const std::string type = place.at("Type").text();
    const CudaType* const known = find_type(type);
    const auto value = place.find("FillValue");
    if (known == nullptr || known->number.empty() || !value || !value->value().is_number())
      return leave_out("the argument '" + name + "' is no number that is known here: " + type);
    const bool is_real = known->number[0] == 'f';
    arguments_.push_back(
        {{std::string(known->number), is_real ? Document(value->value()) : Document(constant_at(*value))}});
  }

  void read_vector(const JsonPlace& place, const std::string& name) {
    const std::string type = place.at("Type").text(), access = text_at(place, "AccessType", "ReadOnly");
    const CudaType* const known = find_type(type);
    if (known == nullptr)
      return leave_out("the argument '" + name + "' has elements that a kernel.json has not: " + type);
    Document tensor = {{"name", name},
                       {"dtype", std::string(known->element)},
                       {"shape", Document::array({constant_at(place.at("Size"))})}};
    if (access == "WriteOnly" || access == "ReadWrite") tensor["role"] = access == "WriteOnly" ? "output" : "inout";
    const bool is_integer = known->element[0] == 'i' || known->element[0] == 'u';
    if (access != "WriteOnly") tensor["fill"] = fill_of(place, name, is_integer);
    if (tensor.contains("role") && !is_integer) tensor["check"] = {{"error", kImportedError}};
    kernel_.description["tensors"].push_back(std::move(tensor));
    if (text_at(place, "MemType", "") == "Constant") {
      symbols_.push_back({{"symbol", name}, {"of", name}});
    } else {
      arguments_.push_back(name);
    }
  }

  Document fill_of(const JsonPlace& place, const std::string& name, bool is_integer) {
    const std::string fill = text_at(place, "FillType", "Random");
    const auto value = place.find("FillValue");
    const double number = value && value->value().is_number() ? value->value().get<double>() : 1;
    if (fill == "Constant") return number == 0 ? Document("zeros") : Document{{"constant", number}};
    if (fill != "Random") leave_out("the values of '" + name + "' (" + fill + ") are drawn instead");
    if (is_integer) return {{"integers", std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(number, 1e6)))}};
    return number > 0 ? Document{{"uniform", number}} : Document("normal");
  }

  const JsonPlace top_;
  const std::string& file_;
  ImportedKernel kernel_;
  std::vector<std::int64_t> sizes_;                          // of the problem
  std::map<std::string, std::vector<std::int64_t>> values_;  // of parameters that are integers
  Document arguments_ = Document::array(), symbols_ = Document::array();
};

ImportedKernel import_results(std::string_view bytes, const std::string& file) {
  const Recording recording = parse_recording(bytes, file, kAnyObjective);
  ImportedKernel kernel;
  kernel.name = word_of(recording.kernel);
  kernel.description = {{"kernel", kernel.name}, {"syntax", "python"}, {"source", kernel.name + ".cu"}};
  Document parameters = Document::array();
  for (const Parameter& parameter : recording.space.parameters()) parameters.push_back(document_of(parameter));
  kernel.description["parameters"] = std::move(parameters);
  kernel.description["constraints"] = Document::array();
  kernel.description["defaults"] = Document::array();
  count_legal(kernel, file);
  kernel.unfinished = "add problem, tensors, launches and reference";
  kernel.left_out.push_back("results hold no restrictions: " + std::to_string(recording.space.size()) +
                            " configurations were recorded; add constraints");
  return kernel;
}

}  // namespace

ImportedKernel import_kernel(std::string_view bytes, const std::string& file) {
  const std::string text = decompress(bytes, file);
  if (is_annotated(text)) {
    ImportedKernel kernel = read_annotated(text, file);
    count_legal(kernel, file);
    finish(kernel);
    return kernel;
  }
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string::npos && text[begin] != '{' && text.find("__global__") != std::string::npos)
    throw BadInput(file + ": none of its functions is annotated by #pragma kernel");
  const bool is_results = text.size() > kMostDescription || begin == std::string::npos || text[begin] != '{' ||
                          text.find("\"ConfigurationSpace\"") == std::string::npos;
  if (is_results) return import_results(text, file);
  const LocatedJson description(text, file);
  return DescriptionImport(description, file).read();
}

}  // namespace moetune
