// One workload: a kernel's name and a value for each of its dimensions. Its canonical text
// (`batch=64,q_heads=64,...`, in schema order, every dimension present) is part of the cache key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/assignment.h"

namespace moetune {

struct Dimension {
  std::string name;
  std::string doc;
  Value default_value;       // the value if the user gives none
  std::int64_t minimum = 0;  // for integers
  std::int64_t maximum = 0;
  std::vector<std::string> names;  // for named values ("bf16", "fp16"): the whole list; empty for integers
};

Dimension integer_dimension(std::string name, std::string doc, std::int64_t default_value, std::int64_t minimum,
                            std::int64_t maximum);
// The first of `names` is the default.
Dimension named_dimension(std::string name, std::string doc, std::vector<std::string> names);

struct Problem {
  std::string kernel;
  Assignment dims;

  std::string text() const { return dims.text(); }
  std::int64_t operator[](std::string_view name) const { return dims.number(name); }
  bool is(std::string_view name, std::string_view value) const { return dims.is(name, value); }
  bool operator==(const Problem&) const = default;
};

using ProblemSchema = std::vector<Dimension>;

// A named starting point, usually a model: it sets some dimensions and leaves the rest to the user.
struct Preset {
  std::string name;
  std::string doc;
  std::vector<std::pair<std::string, std::string>> dims;
};

// Fills in `text` (`batch=64,context=8192`) over `preset` over the schema's defaults, and checks names,
// ranges and choices. Throws BadInput: the nearest dimension for an unknown one, the allowed range or the
// list of choices for a bad value. Rules across dimensions are Kernel::check's.
Problem parse_problem(std::string_view kernel, const ProblemSchema& schema, const Preset* preset,
                      std::string_view text);

// Throws BadInput unless the dimension of that name has one of these values.
void require_one_of(const Problem& problem, const std::string& name, const std::vector<std::int64_t>& allowed);

// Throws BadInput unless the dimension of that name takes all whole numbers from `first` to `last`.
void check_range(std::string_view kernel, const ProblemSchema& schema, const std::string& name, std::int64_t first,
                 std::int64_t last);

}  // namespace moetune
