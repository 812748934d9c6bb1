// The values of one parameter in another tuner's results, and which of them a row means.
//
// Filled by add(), then sealed, then only asked. Belongs to one thread until then.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "replay/json_rows.h"
#include "search/legal_space.h"

namespace moetune {

// A value as the file shows it: a number, a text, or a list of these.
struct FoundValue {
  std::string text;                     // as Python prints it; a list as a tuple: "(16, 16)"
  std::string as_list;                  // of a list: "[16, 16]"
  std::optional<std::int64_t> integer;  // where it is one
  std::optional<double> number;         // of an integer too
};

struct NamedValue {
  std::string path;  // its first steps, as many as asked for
  FoundValue value;
};

// The values of a row or a header: what `steps` steps of the path name is one value, a list if there are more steps.
std::vector<NamedValue> values_of(std::span<const JsonField> fields, std::size_t steps);

// A name of a file's as messages show it: at most a hundred characters.
std::string brief_name(std::string_view name);

// The value of a piece of text, such as a key.
FoundValue value_of_text(std::string_view text);

class ResultDomain {
 public:
  static constexpr std::size_t kMostValues = 65536;

  bool add(FoundValue value);  // false if it is there already
  std::size_t size() const { return values_.size(); }
  // After this the positions stand. `ascending`: integers in their order, not in that of the file.
  void seal(bool ascending);

  // By its text, or as the one number that differs in the last digits only (of a 32-bit float); nullopt if there is
  // none, or more than one.
  std::optional<Position> find(const FoundValue& value) const;

  // A domain of integers, or of names if one value is no integer. Commas become semicolons, since a configuration's
  // text is divided by commas. Throws BadInput if two values would look alike.
  Parameter parameter(const std::string& name, std::string_view file) const;

 private:
  bool all_integers() const;

  std::vector<FoundValue> values_;
  std::unordered_map<std::string, Position> by_text_;
  std::vector<std::pair<double, Position>> numbers_, reals_;  // ascending; reals_ without the integers
};

}  // namespace moetune
