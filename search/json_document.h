// Reading a JSON file whose keys are all known, with errors that name the file and the key (BadInput).
// A JsonObject refers into the document, which must outlive it. Not for headers that others include.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

class JsonObject {
 public:
  // `path` is the object's own key: "constraints[2]"; empty for the whole document.
  JsonObject(const nlohmann::json& value, std::string_view file, std::string path);

  void allow_only(std::initializer_list<std::string_view> keys) const;
  bool has(const std::string& key) const { return value_.contains(key); }
  bool is_object(const std::string& key) const { return has(key) && value_[key].is_object(); }
  std::vector<std::string> keys() const;

  std::string string(const std::string& key) const;
  std::string scalar_text(const std::string& key) const;  // a string or an integer, as text
  const nlohmann::json& array(const std::string& key) const;
  JsonObject object(const std::string& key) const;
  std::vector<JsonObject> objects(const std::string& key) const;  // an array of objects

  std::string where(const std::string& key) const;  // "spaces/x.json: constraints[2].expr"
  [[noreturn]] void fail(const std::string& key, const std::string& what) const;

 private:
  const nlohmann::json& need(const std::string& key) const;

  const nlohmann::json& value_;
  std::string file_;
  std::string path_;
};

}  // namespace moetune
