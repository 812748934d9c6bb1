// What workloads.schema.json uses of JSON Schema. A keyword that is not known throws.
#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>

namespace moetune::testing {

class JsonSchema {
 public:
  using Json = nlohmann::json;
  explicit JsonSchema(Json root) : root_(std::move(root)) {}

  bool accepts(const Json& value) const { return accepts(value, root_); }

 private:
  bool accepts(const Json& value, const Json& schema) const {
    return std::all_of(schema.items().begin(), schema.items().end(),
                       [&](const auto& item) { return meets(value, schema, item.key(), item.value()); });
  }

  bool meets(const Json& value, const Json& schema, const std::string& keyword, const Json& rule) const {
    static const std::set<std::string> kSilent = {"$schema", "title", "description", "$defs", "examples"};
    if (kSilent.contains(keyword)) return true;
    if (keyword == "$ref") return accepts(value, root_.at(Json::json_pointer(rule.get<std::string>().substr(1))));
    if (keyword == "type") return has_type(value, rule);
    if (keyword == "const") return value == rule;
    if (keyword == "not") return !accepts(value, rule);
    if (keyword == "anyOf")
      return std::any_of(rule.begin(), rule.end(), [&](const Json& one) { return accepts(value, one); });
    if (keyword == "minimum") return !value.is_number() || value >= rule;
    if (keyword == "maximum") return !value.is_number() || value <= rule;
    if (keyword == "exclusiveMinimum") return !value.is_number() || value > rule;
    if (keyword == "maxLength") return !value.is_string() || characters(value) <= rule;
    if (keyword == "pattern")
      return !value.is_string() || std::regex_search(value.get<std::string>(), std::regex(std::string(rule)));
    if (keyword == "minItems") return !value.is_array() || value.size() >= rule;
    if (keyword == "maxItems") return !value.is_array() || value.size() <= rule;
    if (keyword == "maxProperties") return !value.is_object() || value.size() <= rule;
    if (keyword == "items")
      return !value.is_array() ||
             std::all_of(value.begin(), value.end(), [&](const Json& one) { return accepts(one, rule); });
    if (keyword == "required")
      return !value.is_object() || std::all_of(rule.begin(), rule.end(),
                                               [&](const Json& key) { return value.contains(key.get<std::string>()); });
    if (keyword == "properties" || keyword == "additionalProperties")
      return meets_members(value, schema, keyword, rule);
    throw std::runtime_error("the test knows no " + keyword);
  }

  bool meets_members(const Json& value, const Json& schema, const std::string& keyword, const Json& rule) const {
    if (!value.is_object()) return true;
    const Json named = schema.value("properties", Json::object());
    return std::all_of(value.items().begin(), value.items().end(), [&](const auto& item) {
      if (keyword == "properties") return !rule.contains(item.key()) || accepts(item.value(), rule[item.key()]);
      if (named.contains(item.key())) return true;
      return rule.is_boolean() ? rule.get<bool>() : accepts(item.value(), rule);
    });
  }

  static bool has_type(const Json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "number") return value.is_number();
    if (type != "integer") throw std::runtime_error("the test knows no type " + type);
    return value.is_number() && (!value.is_number_float() || value.get<double>() == std::trunc(value.get<double>()));
  }

  static std::size_t characters(const std::string& text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  }

  Json root_;
};

}  // namespace moetune::testing
