#include "search/json_document.h"

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"

namespace moetune {

using nlohmann::json;

JsonObject::JsonObject(const json& value, std::string_view file, std::string path)
    : value_(value), file_(file), path_(std::move(path)) {
  if (!value_.is_object()) {
    throw BadInput(file_ + ": " + (path_.empty() ? "the document" : path_) + " must be an object, not " +
                   value_.type_name());
  }
}

void JsonObject::allow_only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, ignored] : value_.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      fail(key, unknown_name("key", key, std::vector<std::string>(keys.begin(), keys.end())));
    }
  }
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, ignored] : value_.items()) keys.push_back(key);
  return keys;
}

std::string JsonObject::where(const std::string& key) const {
  return file_ + ": " + (path_.empty() ? "" : path_ + ".") + key;
}

void JsonObject::fail(const std::string& key, const std::string& what) const {
  throw BadInput(where(key) + ": " + what);
}

const json& JsonObject::need(const std::string& key) const {
  const auto it = value_.find(key);
  if (it == value_.end()) fail(key, "this key is missing");
  return *it;
}

std::string JsonObject::string(const std::string& key) const {
  const json& value = need(key);
  if (!value.is_string()) fail(key, std::string("must be a string, not ") + value.type_name());
  return value.get<std::string>();
}

std::string JsonObject::scalar_text(const std::string& key) const {
  const json& value = need(key);
  if (value.is_number_integer()) return value.dump();
  if (value.is_string()) return value.get<std::string>();
  fail(key, std::string("must be an integer or a string, not ") + value.type_name());
}

const json& JsonObject::array(const std::string& key) const {
  const json& value = need(key);
  if (!value.is_array()) fail(key, std::string("must be an array, not ") + value.type_name());
  return value;
}

JsonObject JsonObject::object(const std::string& key) const {
  return JsonObject(need(key), file_, path_.empty() ? key : path_ + "." + key);
}

std::vector<JsonObject> JsonObject::objects(const std::string& key) const {
  std::vector<JsonObject> found;
  const json& items = array(key);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string path = (path_.empty() ? "" : path_ + ".") + key + "[" + std::to_string(i) + "]";
    found.emplace_back(items[i], file_, path);
  }
  return found;
}

}  // namespace moetune
