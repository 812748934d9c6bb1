#include "search/space_file.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "base/lists.h"
#include "base/suggest.h"
#include "search/json_document.h"
#include "search/space_defaults.h"

namespace moetune {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDomain = std::size_t{1} << 16;
// Far above any space that a person writes. Reading takes time quadratic in some of them.
constexpr std::size_t kMaxFile = std::size_t{1} << 22;
constexpr std::size_t kMaxParameters = 128;
constexpr std::size_t kMaxNames = 4096;  // values that are names, of all parameters
constexpr std::size_t kMaxRules = 1024;  // lets; constraints; gates
constexpr std::int64_t kMaxValue = std::int64_t{1} << 62;

bool is_identifier(std::string_view text) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), is_part);
}

// Names travel in `a=1,b=tma` text, in single quotes and in macro definitions.
bool is_value_name(std::string_view text) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
  };
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), is_part);
}

class Reader {
 public:
  explicit Reader(SpaceFile& space) : space_(space) {}

  void read(const json& document) {
    const JsonObject top(document, space_.file, "");
    // A described kernel's space lies in its own file, whose other keys have a reader of their own.
    const bool is_described = top.has("launches");
    if (!is_described)
      top.allow_only({"kernel", "doc", "syntax", "parameters", "let", "constraints", "bases", "defaults"});
    space_.kernel = top.string("kernel");
    if (!is_identifier(space_.kernel)) top.fail("kernel", "'" + space_.kernel + "' is not a name");
    if (top.has("syntax") && one_of(top, "syntax", {"own", "python"}) == "python")
      space_.vocabulary.set_syntax(Syntax::python);
    read_parameters(top);
    read_lets(top);
    read_gates(top);
    read_kept(top);
    read_constraints(top);
    read_defaults(top, space_);
    if (!is_described) check_lets_are_used();
  }

 private:
  void read_parameters(const JsonObject& top) {
    const std::vector<JsonObject> items = top.objects("parameters");
    if (items.empty()) top.fail("parameters", "a space needs at least one parameter");
    require_at_most(top, "parameters", kMaxParameters, items.size());
    for (const JsonObject& item : items) {
      item.allow_only({"name", "values", "doc", "gates", "keeps", "at"});
      Parameter parameter;
      parameter.name = item.string("name");
      check_new_name(item, "name", parameter.name);
      if (item.has("doc")) parameter.doc = item.string("doc");
      if (item.has("at")) parameter.at_launch = one_of(item, "at", {"compile", "launch"}) == "launch";
      read_values(item, parameter);
      if (parameter.is_named()) named_values_ += parameter.values.size();
      require_at_most(top, "parameters", kMaxNames, named_values_, "values that are names");
      space_.vocabulary.add_parameter(parameter);
      space_.parameters.push_back(std::move(parameter));
    }
  }

  static void require_at_most(const JsonObject& item, const std::string& key, std::size_t most, std::size_t count,
                              const std::string& of = "entries") {
    if (count > most) item.fail(key, "more than " + std::to_string(most) + " " + of);
  }

  void check_new_name(const JsonObject& item, const std::string& key, const std::string& name) const {
    if (!is_identifier(name)) item.fail(key, "'" + name + "' is not a name (letters, digits and _)");
    if (std::set<std::string>{"problem", "device", "min", "max", "ceil_div", "is_pow2", "log2"}.contains(name)) {
      item.fail(key, "'" + name + "' already means something in expressions");
    }
    if (space_.vocabulary.find(name)) item.fail(key, "'" + name + "' is declared twice");
  }

  void read_values(const JsonObject& item, Parameter& parameter) const {
    const json& values = item.array("values");
    const std::string of = " of '" + parameter.name + "'";
    if (values.empty()) item.fail("values", "the domain" + of + " is empty");
    if (values.size() > kMaxDomain) item.fail("values", "the domain" + of + " has more than 65536 values");
    std::set<std::string> seen;
    for (const json& value : values) {
      const auto position = static_cast<std::int64_t>(parameter.values.size());
      const std::string key = "values[" + std::to_string(position) + "]";
      if (value.is_number_integer()) {
        const bool fits = !value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{kMaxValue};
        if (!fits || value.get<std::int64_t>() > kMaxValue || value.get<std::int64_t>() < -kMaxValue) {
          item.fail(key, "a value" + of + " is beyond 2^62");
        }
        parameter.values.push_back(Value::integer(value.get<std::int64_t>()));
      } else if (value.is_string() && is_value_name(value.get<std::string>())) {
        parameter.values.push_back(Value::named(value.get<std::string>(), position));
      } else {
        item.fail(key, value.dump() + " is neither an integer nor a name (a letter, then letters, digits, _ . -)");
      }
      if (parameter.values.back().is_named() != parameter.values.front().is_named()) {
        item.fail(key, "the domain" + of + " mixes integers and names");
      }
      if (!seen.insert(parameter.values.back().text()).second) {
        item.fail(key, "the domain" + of + " holds " + parameter.values.back().text() + " twice");
      }
    }
  }

  // The text at `key`, which must be one of `words`.
  static std::string one_of(const JsonObject& item, const std::string& key, const std::vector<std::string>& words) {
    const std::string word = item.string(key);
    if (std::find(words.begin(), words.end(), word) == words.end()) item.fail(key, unknown_name(key, word, words));
    return word;
  }

  Expression expression(const JsonObject& item, const std::string& key) {
    return Expression::parse(item.string(key), item.where(key), space_.vocabulary);
  }

  void read_lets(const JsonObject& top) {
    if (!top.has("let")) return;
    const JsonObject lets = top.object("let");
    const std::vector<std::string> names = lets.keys();
    require_at_most(top, "let", kMaxRules, names.size());
    for (const std::string& name : names) {
      check_new_name(lets, name, name);
      space_.vocabulary.add_let(name);
    }
    std::vector<SpaceFile::Let> unsorted;
    for (const std::string& name : names) {
      unsorted.push_back({*space_.vocabulary.find(name), expression(lets, name)});
    }
    sort_lets(lets, std::move(unsorted));
  }

  void sort_lets(const JsonObject& item, std::vector<SpaceFile::Let> unsorted) {
    enum class Mark { fresh, open, done };
    std::vector<Mark> marks(unsorted.size(), Mark::fresh);
    std::vector<std::string> path;
    const Slot first = static_cast<Slot>(space_.parameters.size());
    const std::function<void(std::size_t)> visit = [&](std::size_t index) {
      const std::string& name = space_.vocabulary[unsorted[index].slot].name;
      path.push_back(name);
      if (marks[index] == Mark::open) {
        const std::span<const std::string> cycle(std::ranges::find(path, name), path.end());
        item.fail(name, "quantities that need each other: " + joined(cycle, " -> "));
      }
      if (marks[index] == Mark::fresh) {
        marks[index] = Mark::open;
        for (const Slot slot : unsorted[index].expression.slots()) {
          if (space_.vocabulary[slot].kind == Vocabulary::Kind::let) visit(slot - first);
        }
        marks[index] = Mark::done;
        for (const Slot slot : unsorted[index].expression.slots()) {
          if (space_.depends_on_parameters(slot)) unsorted[index].of_parameters = true;
        }
        space_.lets.push_back(unsorted[index]);
      }
      path.pop_back();
    };
    for (std::size_t index = 0; index < unsorted.size(); ++index) visit(index);
  }

  void read_gates(const JsonObject& top) {
    const std::vector<JsonObject> items = top.objects("parameters");
    for (std::size_t p = 0; p < items.size(); ++p) {
      if (!items[p].has("gates")) continue;
      const JsonObject gates = items[p].object("gates");
      const std::vector<Value>& values = space_.parameters[p].values;
      require_at_most(items[p], "gates", kMaxRules, space_.gates.size() + gates.keys().size());
      for (const std::string& text : gates.keys()) {
        const auto it = std::find_if(values.begin(), values.end(), [&](const Value& v) { return v.text() == text; });
        if (it == values.end()) {
          gates.fail(text, unknown_name("value of " + space_.parameters[p].name, text, values, &Value::text));
        }
        space_.gates.push_back(
            {p, static_cast<Position>(it - values.begin()), read_environment_expression(gates, text, space_)});
      }
    }
  }

  void read_kept(const JsonObject& top) {
    const std::vector<JsonObject> items = top.objects("parameters");
    for (std::size_t p = 0; p < items.size(); ++p) {
      if (!items[p].has("keeps")) continue;
      if (space_.parameters[p].is_named())
        items[p].fail("keeps", "a name cannot grow with a problem: only integers keep a quantity");
      space_.kept.push_back({p, expression(items[p], "keeps")});
    }
  }

  void read_constraints(const JsonObject& top) {
    if (!top.has("constraints")) return;
    require_at_most(top, "constraints", kMaxRules, top.array("constraints").size());
    for (const JsonObject& item : top.objects("constraints")) {
      item.allow_only({"expr", "why", "kind"});
      SpaceFile::Constraint constraint{expression(item, "expr"), item.string("why")};
      if (item.has("kind") && one_of(item, "kind", {"must", "useful"}) == "useful")
        constraint.kind = ConstraintKind::useful;
      if (constraint.why.empty()) item.fail("why", "say why configurations that break this do not work");
      if (constraint.expression.slots().empty()) item.fail("expr", "the constraint names nothing");
      space_.constraints.push_back(std::move(constraint));
    }
  }

  void check_lets_are_used() const {
    std::set<Slot> used;
    const auto use = [&](const Expression& expression) {
      for (const Slot slot : expression.slots()) used.insert(slot);
    };
    for (const SpaceFile::Gate& gate : space_.gates) use(gate.condition);
    for (const SpaceFile::Constraint& constraint : space_.constraints) use(constraint.expression);
    for (const SpaceFile::Default& rule : space_.defaults) {
      if (rule.when) use(*rule.when);
      if (rule.choice) use(rule.choice->at_most);
    }
    for (const SpaceFile::Kept& kept : space_.kept) use(kept.quantity);
    for (auto let = space_.lets.rbegin(); let != space_.lets.rend(); ++let) {
      if (!used.contains(let->slot)) {
        throw BadInput(let->expression.where() + ": nothing uses this quantity");
      }
      use(let->expression);
    }
  }

  SpaceFile& space_;
  std::size_t named_values_ = 0;
};

}  // namespace

const Value& value_from_text(const Parameter& parameter, std::string_view text) {
  return find_by_name("value of " + parameter.name, text, parameter.values, &Value::text);
}

Config values_from_texts(const std::vector<Parameter>& parameters,
                         const std::vector<std::pair<std::string, std::string>>& texts) {
  Config given;
  for (const auto& [name, text] : texts) {
    given.set(name, value_from_text(find_by_name("parameter", name, parameters, &Parameter::name), text));
  }
  return given;
}

bool SpaceFile::depends_on_parameters(Slot slot) const {
  if (vocabulary[slot].kind == Vocabulary::Kind::parameter) return true;
  return std::any_of(lets.begin(), lets.end(), [&](const Let& let) { return let.slot == slot && let.of_parameters; });
}

SpaceFile read_space_file(std::string_view text, std::string_view file) {
  SpaceFile space;
  space.file = file;
  if (text.size() > kMaxFile) throw BadInput(space.file + " is larger than 4 MiB");
  Reader(space).read(parse_json(text, file, RepeatedKeys::refused));
  return space;
}

}  // namespace moetune
