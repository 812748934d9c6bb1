// An ordered list of `name = value`: a configuration, a problem's dimensions, or the names that constraint
// expressions may use. Canonical text is `a=1,b=tma` in that order; two assignments are equal when their
// canonical texts are. A plain value type: no ownership, no sharing, safe to copy across threads.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search/value.h"

namespace moetune {

class Assignment {
 public:
  using Entry = std::pair<std::string, Value>;

  Assignment() = default;
  Assignment(std::initializer_list<Entry> entries) : entries_(entries) {}

  void reserve(std::size_t entries) { entries_.reserve(entries); }

  // Replaces the value where the name is already there, else appends.
  void set(std::string_view name, Value value);

  // Adds a name that is not there yet.
  void append(std::string name, Value value) { entries_.emplace_back(std::move(name), std::move(value)); }

  // nullptr where the name is absent; valid until the next set.
  const Value* find(std::string_view name) const;
  // Throws std::out_of_range naming the missing name.
  const Value& at(std::string_view name) const;
  std::int64_t number(std::string_view name) const { return at(name).number; }
  bool is(std::string_view name, std::string_view value_name) const { return at(name).name == value_name; }

  std::string text() const;
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool operator==(const Assignment&) const = default;

 private:
  std::vector<Entry> entries_;
};

// One point of a space.
using Config = Assignment;

// Splits `a=1,b=tma` into name/text pairs. Throws BadInput naming the piece that is not `name=value` or the
// name that occurs twice. `what` says what is being read ("the configuration").
std::vector<std::pair<std::string, std::string>> split_assignment(std::string_view text, std::string_view what);

}  // namespace moetune
