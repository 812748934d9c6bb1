// Lists made of others, joined to texts and split from them. Pure functions.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace moetune {

// "a, b, c": what `text` makes of each item.
template <typename Items, typename Text = std::identity>
std::string joined(Items&& items, std::string_view separator = ", ", const Text& text = {}) {
  std::string all;
  bool is_first = true;
  for (auto&& item : items) {
    if (!is_first) all += separator;
    is_first = false;
    all += std::invoke(text, item);
  }
  return all;
}

// "a, b or c" where `last` is " or ".
template <typename Words>
std::string enumerated(const Words& words, std::string_view last) {
  if (words.size() < 2) return joined(words);
  const auto end = std::prev(words.end());
  std::string all(*words.begin());
  for (auto word = std::next(words.begin()); word != end; ++word) all.append(", ").append(*word);
  return all.append(last).append(*end);
}

// The parts between separators, one more than there are of these.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// A list of what `of` gives of each: as a One, if that is named.
template <typename One = void, typename Items, typename Of>
auto gathered(const Items& items, const Of& of) {
  using Given = std::decay_t<decltype(std::invoke(of, *std::begin(items)))>;
  std::vector<std::conditional_t<std::is_void_v<One>, Given, One>> all;
  for (const auto& one : items) all.emplace_back(std::invoke(of, one));
  return all;
}

}  // namespace moetune
