#include "replay/annotated_source.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "replay/cuda_tokens.h"

namespace moetune {
namespace {

using Document = nlohmann::ordered_json;
using Tokens = std::vector<CudaToken>;

constexpr std::int64_t kGuessedSize = 1 << 24,
                       kGuessedSide = 4096;  // of a problem with one size, and with several
constexpr double kAnnotatedError = 1e-4;     // of an output, as a share of its largest value

constexpr std::array<CudaType, 28> kCudaTypes = {{{"float", "f32", "f32"},
                                                  {"double", "f64", "f64"},
                                                  {"half", "f16", ""},
                                                  {"__half", "f16", ""},
                                                  {"__nv_bfloat16", "bf16", ""},
                                                  {"int", "i32", "i32"},
                                                  {"int32_t", "i32", "i32"},
                                                  {"unsigned", "u32", "u32"},
                                                  {"unsigned int", "u32", "u32"},
                                                  {"uint32_t", "u32", "u32"},
                                                  {"long", "i64", "i64"},
                                                  {"long long", "i64", "i64"},
                                                  {"int64_t", "i64", "i64"},
                                                  {"ptrdiff_t", "i64", "i64"},
                                                  {"unsigned long", "i64", "u64"},
                                                  {"unsigned long long", "i64", "u64"},
                                                  {"uint64_t", "i64", "u64"},
                                                  {"size_t", "i64", "u64"},
                                                  {"short", "i16", "i16"},
                                                  {"int16_t", "i16", "i16"},
                                                  {"unsigned short", "u16", "u16"},
                                                  {"uint16_t", "u16", "u16"},
                                                  {"char", "i8", "i8"},
                                                  {"signed char", "i8", "i8"},
                                                  {"int8_t", "i8", "i8"},
                                                  {"unsigned char", "u8", "u8"},
                                                  {"uint8_t", "u8", "u8"},
                                                  {"bool", "u8", "u8"}}};

struct CudaParameter {
  std::string type, name;
  bool is_pointer = false, is_const = false;
};

// A parameter of a function or a template, without its default.
CudaParameter parameter_of(const Tokens& tokens) {
  static const std::set<std::string> kQualifiers = {"const",      "volatile", "__restrict__",
                                                    "__restrict", "restrict", "__grid_constant__"};
  CudaParameter parameter;
  for (const CudaToken& token : tokens) {
    if (token.is("=")) break;
    if (token.is("const")) parameter.is_const = true;
    if (token.is("*") || token.is("[")) parameter.is_pointer = true;
    if (token.kind != CudaToken::Kind::word || kQualifiers.contains(token.text)) continue;
    if (!parameter.name.empty()) parameter.type += (parameter.type.empty() ? "" : " ") + parameter.name;
    parameter.name = token.text;
  }
  return parameter;
}

class AnnotatedImport {
 public:
  AnnotatedImport(std::string_view text, const std::string& file) : file_(file), tokens_(cuda_tokens(text, file)) {}

  ImportedKernel read() {
    find_kernel();
    for (const CudaParameter& parameter : parameters_)
      if (!parameter.is_pointer && is_size(parameter.type)) sizes_.insert(parameter.name);
    for (const std::size_t begin : directives_) read_directive(begin);
    Document& description = kernel_.description;
    description = {{"kernel", kernel_.name}, {"source", kernel_.name + ".cu"}};
    describe_problem();
    describe_tensors();
    description["parameters"] = std::move(tuned_);
    description["let"] = lets_;
    description["constraints"] = std::move(restrictions_);
    description["defaults"] = Document::array({{{"config", std::move(usual_)}}});
    describe_launch();
    kernel_.has_launch = true;
    return std::move(kernel_);
  }

 private:
  [[noreturn]] void fail(const CudaToken& at, const std::string& why) const {
    throw BadInput(file_ + ":" + std::to_string(at.line) + ": " + why);
  }

  const CudaToken& now() const {
    static const CudaToken kNone;
    return at_ < tokens_.size() ? tokens_[at_] : kNone;
  }
  bool take(std::string_view text) {
    if (!now().is(text)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) fail(now(), "expected '" + std::string(text) + "'" + shown());
  }
  std::string shown() const {
    return now().text.empty() ? " before the end of the line" : ", not '" + now().text.substr(0, 40) + "'";
  }
  std::string expect_word() {
    if (now().kind != CudaToken::Kind::word) fail(now(), "expected a name" + shown());
    return tokens_[at_++].text;
  }

  // The first annotated function: where its directives begin, its name and its parameters.
  void find_kernel() {
    std::vector<std::pair<std::string, std::size_t>> spaces;  // with the depth at which each ends
    std::size_t depth = 0;
    for (; at_ < tokens_.size(); ++at_) {
      if (now().kind == CudaToken::Kind::begin) {
        directives_.push_back(at_ + 1);
        while (at_ < tokens_.size() && now().kind != CudaToken::Kind::end) ++at_;
      } else if (now().is("{")) {
        ++depth;
      } else if (now().is("}")) {
        depth -= depth > 0;
        while (!spaces.empty() && spaces.back().second > depth) spaces.pop_back();
      } else if (now().is("namespace")) {
        for (++at_; now().kind == CudaToken::Kind::word || now().is("::"); ++at_)
          if (!now().is("::")) spaces.emplace_back(now().text, depth + 1);
        --at_;
      } else if (!directives_.empty() && now().is("template")) {
        ++at_;
        expect("<");
        template_ = parameter_list(">");
      } else if (!directives_.empty() && now().is("__global__")) {
        read_head();
        for (const auto& [space, ignored] : spaces) qualified_ += space + "::";
        qualified_ += name_;
        kernel_.name = name_;
        break;
      }
    }
    if (name_.empty()) throw BadInput(file_ + ": no __global__ function follows its #pragma kernel");
    for (; at_ < tokens_.size(); ++at_) {
      if (now().kind != CudaToken::Kind::begin) continue;
      leave_out("only '" + name_ + "' is read, the first function that is annotated");
      break;
    }
  }

  void read_head() {
    for (++at_; at_ < tokens_.size(); ++at_) {
      if (take("__launch_bounds__")) {
        expect("(");
        parameter_list(")");
      }
      if (at_ + 1 < tokens_.size() && now().kind == CudaToken::Kind::word && tokens_[at_ + 1].is("(")) break;
    }
    name_ = expect_word();
    expect("(");
    parameters_ = parameter_list(")");
    if (parameters_.size() > 40) fail(now(), "'" + name_ + "' has more than 40 parameters");
  }

  // Up to the end, which it stays at.
  std::vector<CudaParameter> parameter_list(std::string_view end) {
    std::vector<CudaParameter> list;
    Tokens one;
    std::size_t depth = 0;
    for (; at_ < tokens_.size(); ++at_) {
      const bool is_end = depth == 0 && now().is(end);
      if (is_end || (depth == 0 && now().is(","))) {
        if (!one.empty()) list.push_back(parameter_of(one));
        one.clear();
        if (is_end) return list;
        continue;
      }
      depth += now().is("(") || now().is("<") || now().is("[");
      depth -= depth > 0 && (now().is(")") || now().is(">") || now().is("]"));
      one.push_back(now());
    }
    fail(now(), "expected '" + std::string(end) + "'");
  }

  bool is_type_parameter(const std::string& type) const {
    return std::ranges::any_of(template_, [&](const CudaParameter& one) {
      return one.name == type && (one.type == "typename" || one.type == "class");
    });
  }
  const CudaType* type_of(const std::string& type) const {
    return find_cuda_type(is_type_parameter(type) ? "float" : type);
  }
  bool is_size(const std::string& type) const {
    const CudaType* const known = find_cuda_type(type);
    return known != nullptr && !known->number.empty() && known->number[0] != 'f' && type != "bool";
  }

  void read_directive(std::size_t begin) {
    at_ = begin;
    while (now().kind != CudaToken::Kind::end && at_ < tokens_.size()) {
      const CudaToken word = now();
      const std::string name = expect_word();
      expect("(");
      if (name == "tune") {
        read_tune(word);
      } else if (name == "set") {
        do {
          const std::string let = expect_word();
          expect("=");
          lets_[let] = expression(true);
          known_.insert(let);
        } while (take(","));
        expect(")");
      } else if (name == "buffers" || name == "buffer") {
        do {
          const std::string buffer = expect_word();
          expect("[");
          buffers_[buffer] = expression(false);
          expect("]");
        } while (take(","));
        expect(")");
      } else if (name == "restriction" || name == "restrictions") {
        for (std::string& one : expressions(true))
          restrictions_.push_back({{"expr", std::move(one)}, {"why", "a restriction of the source"}});
      } else if (name == "tuning_key") {
        while (now().kind != CudaToken::Kind::end && at_ < tokens_.size()) ++at_;
      } else {
        static const std::map<std::string, std::string> kAxes = {
            {"problem_size", "problem_size"}, {"problem_dim", "problem_size"},  {"block_size", "block_size"},
            {"block_dim", "block_size"},      {"grid_size", "grid_size"},       {"grid_dim", "grid_size"},
            {"grid_divisor", "grid_divisor"}, {"grid_divisors", "grid_divisor"}};
        const auto axes = kAxes.find(name);
        if (axes == kAxes.end()) fail(word, "there is no directive '" + name.substr(0, 40) + "'");
        axes_[axes->second] = expressions(false);
        if (axes_[axes->second].size() > 3) fail(word, name + " has at most 3 values");
      }
    }
  }

  void read_tune(const CudaToken& word) {
    const std::string name = expect_word();
    expect("=");
    Document values = Document::array();
    do {
      values.push_back(constant());
    } while (take(","));
    expect(")");
    Document usual = values[0];
    if (take("default")) {
      expect("(");
      usual = constant();
      expect(")");
    }
    if (!known_.insert(name).second) fail(word, "'" + name + "' is there already");
    tuned_.push_back({{"name", name}, {"values", std::move(values)}});
    usual_[name] = std::move(usual);
  }

  Document constant() {
    const bool is_negative = take("-");
    const CudaToken value = now();
    ++at_;
    if (value.kind == CudaToken::Kind::text && !is_negative) return value.text;
    if (value.is("true") || value.is("false")) return value.is("true") ? 1 : 0;
    const bool is_integer = value.kind == CudaToken::Kind::number && value.text.size() <= 18 &&
                            value.text.find_first_not_of("0123456789") == std::string::npos;
    if (!is_integer) fail(value, "expected an integer, true, false or a text" + shown());
    return (is_negative ? -1 : 1) * std::stoll(value.text);
  }

  std::vector<std::string> expressions(bool qualifies) {
    std::vector<std::string> list;
    if (take(")")) return list;
    do {
      list.push_back(expression(qualifies));
    } while (take(","));
    expect(")");
    return list;
  }

  // Up to a comma or bracket that is not its own. Where parameters are chosen, a size is problem.NAME.
  std::string expression(bool qualifies) {
    std::string text;
    std::size_t depth = 0;
    for (; now().kind != CudaToken::Kind::end && at_ < tokens_.size(); ++at_) {
      const CudaToken& token = now();
      const bool closes = token.is(")") || token.is("]");
      if (depth == 0 && (closes || token.is(","))) break;
      depth += token.is("(");
      depth -= closes;
      text += text.empty() || token.is(")") || text.back() == '(' ? "" : " ";
      text += token.kind == CudaToken::Kind::text   ? "'" + token.text + "'"
              : token.kind == CudaToken::Kind::word ? named(token, qualifies)
                                                    : token.text;
    }
    if (text.empty()) fail(now(), "expected an expression" + shown());
    return text;
  }

  std::string named(const CudaToken& token, bool qualifies) const {
    if (token.is("div_ceil")) return "ceil_div";
    if (token.is("true") || token.is("false")) return token.is("true") ? "1" : "0";
    if (known_.contains(token.text)) return token.text;
    if (!sizes_.contains(token.text))
      fail(token, "'" + token.text.substr(0, 40) + "' is no parameter that is tuned and no integer argument");
    if (qualifies) compiled_in_.insert(token.text);
    return qualifies ? "problem." + token.text : token.text;
  }

  void leave_out(std::string sentence) { kernel_.left_out.push_back(std::move(sentence)); }

  void describe_problem() {
    Document problem = Document::array();
    std::size_t free = 0;
    for (const std::string& name : sizes_) {
      problem.push_back({{"name", name}, {"default", sizes_.size() == 1 ? kGuessedSize : kGuessedSide}});
      if (!compiled_in_.contains(name) && free++ < 4) problem.back()["free"] = true;
    }
    if (problem.empty())
      problem.push_back({{"name", "size"}, {"default", 1}, {"range", {1, 1}}});
    else
      leave_out("the sizes are guesses: set each \"default\" of \"problem\"");
    kernel_.description["problem"] = std::move(problem);
  }

  void describe_tensors() {
    Document tensors = Document::array();
    std::string all = "1";
    for (const std::string& size : axes_["problem_size"]) all += " * (" + size + ")";
    for (const CudaParameter& parameter : parameters_) {
      const CudaType* const type = type_of(parameter.type);
      if (type == nullptr || (!parameter.is_pointer && type->number.empty())) {
        leave_out("the argument '" + parameter.name + "' has a type that a kernel.json has not: " + parameter.type);
        continue;
      }
      if (!parameter.is_pointer) {
        add_number(parameter, *type);
        continue;
      }
      const auto buffer = buffers_.find(parameter.name);
      Document tensor = {{"name", parameter.name},
                         {"dtype", std::string(type->element)},
                         {"shape", Document::array({buffer == buffers_.end() ? all : buffer->second})}};
      const bool is_integer = type->element[0] == 'i' || type->element[0] == 'u';
      if (!parameter.is_const) {
        tensor["role"] = "output";
        if (!is_integer) tensor["check"] = {{"error", kAnnotatedError}};
        leave_out("'" + parameter.name + "' is taken for an output: say \"inout\" if the kernel reads it");
      } else if (is_integer) {
        tensor["fill"] = {{"integers", 2}};
        leave_out("the values of '" + parameter.name + "' are drawn from 0 and 1");
      }
      tensors.push_back(std::move(tensor));
      arguments_.push_back(parameter.name);
    }
    kernel_.description["tensors"] = std::move(tensors);
  }

  void add_number(const CudaParameter& parameter, const CudaType& type) {
    if (sizes_.contains(parameter.name)) {
      arguments_.push_back({{std::string(type.number), parameter.name}});
      return;
    }
    arguments_.push_back({{std::string(type.number), 1}});
    leave_out("the argument '" + parameter.name + "' is 1");
  }

  // The macros would stand in the way of template parameters of the same names, so that the source is included behind
  // constants that hold their values.
  void describe_launch() {
    std::string entry = qualified_, constants = "// Values of the template parameters.\n", undefined;
    Document macros = Document::object();
    for (std::size_t i = 0; i < template_.size(); ++i) {
      const CudaParameter& parameter = template_[i];
      entry += i == 0 ? "<" : ", ";
      if (is_type_parameter(parameter.name)) {
        entry += "float";
        leave_out("the type " + parameter.name + " is float");
        continue;
      }
      if (!known_.contains(parameter.name))
        throw BadInput(file_ + ": the template parameter '" + parameter.name + "' has no value: #pragma kernel tune(" +
                       parameter.name + "=...)");
      entry += "chosen_" + parameter.name;
      const bool is_plain = find_cuda_type(parameter.type) != nullptr;
      constants += "constexpr " + (is_plain ? parameter.type : "auto") + " chosen_" + parameter.name + " = " +
                   parameter.name + ";\n";
      undefined += "#undef " + parameter.name + "\n";
      if (lets_.contains(parameter.name)) macros[parameter.name] = parameter.name;
    }
    if (!template_.empty()) entry += ">";
    kernel_.wrapper = constants + undefined;
    Document launch = {{"entry", entry}}, block = Document::array(), grid = Document::array();
    const std::vector<std::string>&sizes = axes_["problem_size"], &threads = axes_["block_size"],
          &given = axes_["grid_size"], &divisors = axes_[axes_["grid_divisor"].empty() ? "block_size" : "grid_divisor"];
    const auto at = [](const std::vector<std::string>& list, std::size_t axis) {
      return axis < list.size() ? list[axis] : std::string("1");
    };
    for (std::size_t axis = 0; axis < 3; ++axis) {
      block.push_back(at(threads, axis));
      grid.push_back(given.empty() ? "ceil_div(" + at(sizes, axis) + ", " + at(divisors, axis) + ")" : at(given, axis));
    }
    launch["grid"] = std::move(grid);
    launch["block"] = std::move(block);
    launch["arguments"] = std::move(arguments_);
    if (!macros.empty()) kernel_.description["macros"] = std::move(macros);
    kernel_.description["launches"] = Document::array({std::move(launch)});
  }

  const std::string& file_;
  const Tokens tokens_;
  std::size_t at_ = 0;
  ImportedKernel kernel_;
  std::vector<std::size_t> directives_;
  std::string name_, qualified_;
  std::vector<CudaParameter> template_, parameters_;
  std::set<std::string> sizes_, known_;  // integer arguments; what is tuned or set
  mutable std::set<std::string> compiled_in_;
  std::map<std::string, std::string> buffers_;
  std::map<std::string, std::vector<std::string>> axes_;
  Document tuned_ = Document::array(), usual_ = Document::object(), lets_ = Document::object(),
           restrictions_ = Document::array(), arguments_ = Document::array();
};

}  // namespace

const CudaType* find_cuda_type(std::string_view name) {
  const auto found = std::ranges::find(kCudaTypes, name, &CudaType::cuda);
  return found == kCudaTypes.end() ? nullptr : &*found;
}

bool is_annotated(std::string_view text) {
  return text.find("#pragma kernel ") != std::string_view::npos ||
         text.find("#pragma kernel_tuner ") != std::string_view::npos;
}

ImportedKernel read_annotated(std::string_view text, const std::string& file) {
  return AnnotatedImport(text, file).read();
}

}  // namespace moetune
