// Writes JSON as nlohmann::json prints the same document, without making one: stored plans and digests of plans and
// buffers are such texts. Not for headers that others include. One owner; not thread-safe.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <nlohmann/json.hpp>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>

namespace moetune {

// `Writer` derives from it, and adds a write() for each of its types. Whoever writes an object names its keys in
// alphabetical order.
template <typename Writer>
class JsonText {
 public:
  std::string finish() && { return std::move(text_); }

  void write(bool value) { text_ += value ? "true" : "false"; }
  template <std::integral Integer>
  void write(Integer value) {
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
  void write(double value) { text_ += nlohmann::json(value).dump(); }
  void write(std::string_view value) {
    const bool is_plain =
        std::ranges::all_of(value, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
    is_plain ? text_.append(1, '"').append(value).append(1, '"') : text_ += nlohmann::json(value).dump();
  }
  void write(const std::string& value) { write(std::string_view(value)); }
  void write(const std::pair<std::string, std::string>& two) {
    text_ += '[';
    write(two.first);
    text_ += ',';
    write(two.second);
    text_ += ']';
  }
  template <std::ranges::range List>
  void write(const List& list) {
    text_ += '[';
    const char* before = "";
    for (const auto& item : list) {
      text_ += std::exchange(before, ",");
      writer().write(item);
    }
    text_ += ']';
  }

 protected:
  template <typename... Fields>
  void object(const Fields&... all) {
    text_ += '{';
    fields(all...);
    text_ += '}';
  }
  // Parts of an object.
  template <typename Value, typename... Others>
  void fields(const char* name, const Value& value, const Others&... others) {
    text_.append(1, '"').append(name).append("\":");
    writer().write(value);
    if constexpr (sizeof...(others) > 0) more(others...);
  }
  template <typename... Fields>
  void more(const Fields&... more_fields) {
    text_ += ',';
    fields(more_fields...);
  }

  std::string text_;

 private:
  Writer& writer() { return static_cast<Writer&>(*this); }
};

}  // namespace moetune
