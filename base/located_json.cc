#include "base/located_json.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/json_walk.h"
#include "base/regular_file.h"
#include "base/suggest.h"
#include "base/utf8.h"

namespace moetune {
namespace {

constexpr std::size_t kLongestText = 4096;  // bytes of one string
constexpr std::size_t kLongestShown = 60, kLongestShownKey = 100;
constexpr double kMostWhole = 9007199254740992;  // a double holds each whole number up to 2^53

std::vector<std::string> tokens_of(nlohmann::json::json_pointer pointer) {
  std::vector<std::string> tokens;
  for (; !pointer.empty(); pointer.pop_back()) tokens.push_back(pointer.back());
  std::reverse(tokens.begin(), tokens.end());
  return tokens;
}

bool is_index(const std::string& token) {
  return !token.empty() && token.find_first_not_of("0123456789") == std::string::npos;
}

// 1.0 is an integer of JSON, too.
std::optional<std::int64_t> whole_number(const nlohmann::json& value) {
  if (value.is_number_float()) {
    const auto real = value.get<double>();
    if (real != std::trunc(real) || std::abs(real) > kMostWhole) return std::nullopt;
    return static_cast<std::int64_t>(real);
  }
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return std::nullopt;
  return value.get<std::int64_t>();
}

}  // namespace

LocatedJson::LocatedJson(std::string text, std::string file)
    : text_(std::move(text)), file_(std::move(file)), document_(parse_json(text_, file_, RepeatedKeys::refused)) {}

LocatedJson LocatedJson::read(const std::filesystem::path& file, std::size_t most_bytes) {
  return LocatedJson(read_regular_file(file, most_bytes), file.string());
}

std::size_t LocatedJson::line_of(const nlohmann::json& value) const {
  std::call_once(counted_, [&] {
    std::vector<const nlohmann::json*> open;
    std::size_t line = 1, counted = 0;
    walk_json(text_, [&](const JsonPath& path, const JsonToken& token) {
      if (token.is_key) return true;
      for (; counted < token.at; ++counted) line += text_[counted] == '\n' ? 1 : 0;
      open.resize(path.size());
      open.push_back(path.empty()            ? &document_
                     : path.back().is_object ? &open.back()->at(path.back().key)
                                             : &open.back()->at(path.back().index));
      lines_.emplace(open.back(), line);
      return true;
    });
  });
  return lines_.at(&value);
}

std::string JsonPlace::name() const {
  std::string name;
  for (const std::string& token : tokens_of(pointer_)) {
    if (is_index(token)) {
      name += "[" + token + "]";
    } else {
      name += (name.empty() ? "" : ".") + shortened(token, kLongestShownKey);
    }
  }
  return name.empty() ? "the document" : name;
}

std::string JsonPlace::shown() const {
  const std::string text = value_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return " (got " + shortened(text, kLongestShown) + ")";
}

std::string JsonPlace::where() const {
  return file_->file() + ":" + std::to_string(file_->line_of(*value_)) + ": " + name();
}

void JsonPlace::fail(const std::string& what) const { throw BadInput(where() + " " + what); }

std::optional<JsonPlace> JsonPlace::find(const std::string& key) const {
  if (!value_->is_object()) fail("must be an object" + shown());
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonPlace(*file_, *found, pointer_ / key);
}

JsonPlace JsonPlace::at(const std::string& key) const {
  if (std::optional<JsonPlace> found = find(key)) return *std::move(found);
  fail("lacks the key '" + key + "'");
}

void JsonPlace::allow_only(std::initializer_list<std::string_view> keys) const {
  if (!value_->is_object()) fail("must be an object" + shown());
  const std::vector<std::string> known(keys.begin(), keys.end());
  for (const auto& [key, member] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    JsonPlace(*file_, member, pointer_ / key).fail("is not known: " + unknown_name("key", key, known));
  }
}

std::vector<std::pair<std::string, JsonPlace>> JsonPlace::members(std::size_t most) const {
  if (!value_->is_object()) fail("must be an object" + shown());
  if (value_->size() > most) fail("has more than " + std::to_string(most) + " members");
  std::vector<std::pair<std::string, JsonPlace>> all;
  for (const auto& [key, member] : value_->items()) all.emplace_back(key, JsonPlace(*file_, member, pointer_ / key));
  return all;
}

std::vector<JsonPlace> JsonPlace::elements(std::size_t most) const {
  if (!value_->is_array()) fail("must be a list" + shown());
  if (value_->size() > most) fail("has more than " + std::to_string(most) + " elements");
  std::vector<JsonPlace> all;
  for (std::size_t i = 0; i < value_->size(); ++i) all.emplace_back(*file_, (*value_)[i], pointer_ / i);
  return all;
}

std::int64_t JsonPlace::integer(std::int64_t least, std::int64_t most) const {
  const std::optional<std::int64_t> number = whole_number(*value_);
  if (number && *number >= least && *number <= most) return *number;
  fail((least == most ? "must be " + std::to_string(least)
                      : "must be an integer from " + std::to_string(least) + " to " + std::to_string(most)) +
       shown());
}

double JsonPlace::positive() const {
  const double number = value_->is_number() ? value_->get<double>() : 0;
  if (!std::isfinite(number) || number <= 0) fail("must be a number above 0" + shown());
  if (number > 1e12) fail("must be at most 1e12" + shown());
  return number;
}

std::string JsonPlace::text() const {
  if (!value_->is_string()) fail("must be a text" + shown());
  std::string text = value_->get<std::string>();
  if (text.size() > kLongestText) fail("is longer than " + std::to_string(kLongestText) + " bytes");
  if (text.find('\0') != std::string::npos) fail("must not hold the character NUL" + shown());
  return text;
}

bool JsonPlace::boolean() const {
  if (!value_->is_boolean()) fail("must be true or false" + shown());
  return value_->get<bool>();
}

}  // namespace moetune
