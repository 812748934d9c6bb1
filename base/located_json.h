// A JSON file from outside, read with errors that name the file, the line and the key:
// "w.json:7: workloads[2].weight must be a number above 0 (got -1)". Size, depth, repeated keys and the length of
// strings are bounded.
//
// A JsonPlace refers into its LocatedJson, which must outlive it and stays where it is. Immutable after reading;
// thread-safe. All errors are BadInput.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace moetune {

class LocatedJson;

class JsonPlace {
 public:
  JsonPlace(const LocatedJson& file, const nlohmann::json& value, nlohmann::json::json_pointer pointer)
      : file_(&file), value_(&value), pointer_(std::move(pointer)) {}

  const nlohmann::json& value() const { return *value_; }

  // Finds a member of an object. A member that is null counts as absent.
  std::optional<JsonPlace> find(const std::string& key) const;
  JsonPlace at(const std::string& key) const;
  void allow_only(std::initializer_list<std::string_view> keys) const;
  std::vector<std::pair<std::string, JsonPlace>> members(std::size_t most) const;
  // Returns the elements of an array, at most `most`.
  std::vector<JsonPlace> elements(std::size_t most) const;

  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  double positive() const;  // at most 1e12
  std::string text() const;
  bool boolean() const;

  std::string where() const;  // "w.json:7: workloads[2].weight"
  // `what` goes on after the key: "must be a number".
  [[noreturn]] void fail(const std::string& what) const;
  std::string shown() const;  // " (got -1)", to end such a sentence

 private:
  std::string name() const;  // "workloads[2].weight"

  const LocatedJson* file_;
  const nlohmann::json* value_;
  nlohmann::json::json_pointer pointer_;
};

class LocatedJson {
 public:
  // Reads a file of at most `most_bytes`.
  static LocatedJson read(const std::filesystem::path& file, std::size_t most_bytes);
  LocatedJson(std::string text, std::string file);
  LocatedJson(const LocatedJson&) = delete;

  JsonPlace root() const { return {*this, document_, nlohmann::json::json_pointer()}; }
  const std::string& file() const { return file_; }
  // The line on which a value of the document begins; the first is 1.
  std::size_t line_of(const nlohmann::json& value) const;

 private:
  std::string text_, file_;
  nlohmann::json document_;
  mutable std::once_flag counted_;
  mutable std::unordered_map<const nlohmann::json*, std::size_t> lines_;
};

}  // namespace moetune
