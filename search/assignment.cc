#include "search/assignment.h"

#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "base/lists.h"

namespace moetune {
namespace {

constexpr std::size_t kMaxAssignment = std::size_t{1} << 16;  // a problem or a configuration has a few hundred

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

}  // namespace

void Assignment::set(std::string_view name, Value value) {
  const auto it = std::ranges::find(entries_, name, &Entry::first);
  if (it != entries_.end()) {
    it->second = std::move(value);
  } else {
    entries_.emplace_back(name, std::move(value));
  }
}

// Most names differ in their lengths or first letters.
const Value* Assignment::find(std::string_view name) const {
  const char first = name.empty() ? '\0' : name.front();
  for (const auto& [known, value] : entries_) {
    if (known.size() == name.size() && known.c_str()[0] == first && known == name) return &value;
  }
  return nullptr;
}

const Value& Assignment::at(std::string_view name) const {
  if (const Value* value = find(name)) return *value;
  throw std::out_of_range("no '" + std::string(name) + "' in '" + text() + "'");
}

std::string Assignment::text() const {
  std::string text;
  for (const auto& [name, value] : entries_) {
    if (!text.empty()) text += ',';
    text += name;
    text += '=';
    text += value.text();
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> split_assignment(std::string_view text, std::string_view what) {
  std::vector<std::pair<std::string, std::string>> pieces;
  if (text.size() > kMaxAssignment) {
    throw BadInput(std::string(what) + ": the text is longer than " + std::to_string(kMaxAssignment) + " characters");
  }
  if (trimmed(text).empty()) return pieces;
  pieces.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), ',')) + 1);
  std::vector<std::string_view> names;
  names.reserve(pieces.capacity());
  for (const std::string_view part : split(text, ',')) {
    const std::string_view piece = trimmed(part);
    const std::size_t equals = piece.find('=');
    const std::string_view name = trimmed(piece.substr(0, equals));
    const std::string_view value = equals < piece.size() ? trimmed(piece.substr(equals + 1)) : std::string_view();
    if (name.empty() || value.empty()) {
      throw BadInput(std::string(what) + ": '" + std::string(piece) + "' is not name=value");
    }
    names.push_back(name);
    pieces.emplace_back(name, value);
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw BadInput(std::string(what) + ": '" + std::string(*twice) + "' occurs twice");
  return pieces;
}

}  // namespace moetune
