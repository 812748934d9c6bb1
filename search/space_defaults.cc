#include "search/space_defaults.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "search/json_document.h"

namespace moetune {
namespace {

class DefaultsReader {
 public:
  explicit DefaultsReader(SpaceFile& space) : space_(space) {
    for (const Parameter& parameter : space.parameters) names_.push_back(parameter.name);
  }

  void read(const JsonObject& top) {
    if (top.has("bases")) read_bases(top.object("bases"));
    if (top.has("defaults")) {
      for (const JsonObject& item : top.objects("defaults")) space_.defaults.push_back(read_default(item));
    }
    for (const auto& [name, ignored] : bases_) {
      if (!used_.contains(name)) top.fail("bases." + name, "no default is like this base");
    }
  }

 private:
  void read_bases(const JsonObject& bases) {
    for (const std::string& name : bases.keys()) {
      const JsonObject item = bases.object(name);
      check_names(item);
      Config& base = bases_[name];
      for (const Parameter& parameter : space_.parameters) {
        if (item.has(parameter.name)) base.set(parameter.name, fixed_value(item, parameter));
      }
    }
  }

  SpaceFile::Default read_default(const JsonObject& item) {
    item.allow_only({"doc", "when", "like", "config"});
    if (item.has("doc")) item.string("doc");
    SpaceFile::Default rule;
    if (item.has("when")) rule.when = read_environment_expression(item, "when", space_);
    if (item.has("like")) rule.config = base_of(item);
    if (!item.has("like") || item.has("config")) read_config(item.object("config"), rule);
    complete(item, rule.config);
    return rule;
  }

  const Config& base_of(const JsonObject& item) {
    const std::string name = item.string("like");
    const auto base = bases_.find(name);
    if (base == bases_.end()) {
      item.fail("like", unknown_name("base", name, bases_, [](const auto& other) { return other.first; }));
    }
    used_.insert(name);
    return base->second;
  }

  void read_config(const JsonObject& given, SpaceFile::Default& rule) {
    check_names(given);
    for (std::size_t p = 0; p < space_.parameters.size(); ++p) {
      const Parameter& parameter = space_.parameters[p];
      if (!given.has(parameter.name)) continue;
      if (!given.is_object(parameter.name)) {
        rule.config.set(parameter.name, fixed_value(given, parameter));
        continue;
      }
      if (rule.choice) given.fail(parameter.name, "only one parameter of a default may have an 'at_most'");
      rule.choice = read_choice(given, p);
      rule.config.set(parameter.name, rule.choice->values.front());
    }
  }

  SpaceFile::Choice read_choice(const JsonObject& given, std::size_t p) {
    const Parameter& parameter = space_.parameters[p];
    if (parameter.is_named()) given.fail(parameter.name, "'at_most' needs a parameter of integers");
    const JsonObject item = given.object(parameter.name);
    item.allow_only({"at_most", "of"});
    SpaceFile::Choice choice{p, parameter.values, read_environment_expression(item, "at_most", space_)};
    if (item.has("of")) choice.values = listed_values(item, parameter);
    std::ranges::sort(choice.values, [](const Value& a, const Value& b) { return a.number > b.number; });
    return choice;
  }

  static std::vector<Value> listed_values(const JsonObject& item, const Parameter& parameter) {
    std::vector<Value> values;
    for (const nlohmann::json& listed : item.array("of")) {
      try {
        values.push_back(value_from_text(parameter, listed.dump()));
      } catch (const BadInput& error) {
        item.fail("of", error.what());
      }
    }
    if (values.empty()) item.fail("of", "the list is empty");
    return values;
  }

  static const Value& fixed_value(const JsonObject& item, const Parameter& parameter) {
    const std::string text = item.scalar_text(parameter.name);
    try {
      return value_from_text(parameter, text);
    } catch (const BadInput& error) {
      item.fail(parameter.name, error.what());
    }
  }

  void check_names(const JsonObject& item) const {
    for (const std::string& key : item.keys()) {
      if (std::find(names_.begin(), names_.end(), key) == names_.end())
        item.fail(key, unknown_name("parameter", key, names_));
    }
  }

  // Every parameter has a value, and they stand in the order of the parameters.
  void complete(const JsonObject& item, Config& config) const {
    Config ordered;
    for (const std::string& name : names_) {
      const Value* value = config.find(name);
      if (value == nullptr) item.fail("config." + name, "the default leaves this parameter without a value");
      ordered.set(name, *value);
    }
    config = std::move(ordered);
  }

  SpaceFile& space_;
  std::vector<std::string> names_;  // of the parameters
  std::map<std::string, Config> bases_;
  std::set<std::string> used_;
};

}  // namespace

Expression read_environment_expression(const JsonObject& item, const std::string& key, SpaceFile& space) {
  Expression expression = Expression::parse(item.string(key), item.where(key), space.vocabulary);
  for (const Slot slot : expression.slots()) {
    if (!space.depends_on_parameters(slot)) continue;
    const Vocabulary::Symbol& symbol = space.vocabulary[slot];
    const bool let = symbol.kind == Vocabulary::Kind::let;
    throw_at(expression.where(), expression.text(), expression.column_of(slot),
             "'" + symbol.name + "' is not allowed here: only problem.*, device.* and quantities of these" +
                 (let ? ", and it depends on parameters" : ""));
  }
  return expression;
}

void read_defaults(const JsonObject& top, SpaceFile& space) { DefaultsReader(space).read(top); }

}  // namespace moetune
