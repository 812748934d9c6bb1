// A space file read and checked (docs/spaces.md has the format): what Space wraps.
// Plain data, immutable after reading. Errors are BadInput naming the file, the key and, for an expression,
// the column.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search/assignment.h"
#include "search/expression.h"
#include "search/legal_space.h"
#include "search/parameter.h"
#include "search/rules.h"
#include "search/vocabulary.h"

namespace moetune {

struct SpaceFile {
  struct Let {
    Slot slot;
    Expression expression;
    bool of_parameters = false;  // depends on one, through other lets too
  };
  struct Gate {  // the value at `position` of `parameter` exists only where `condition` holds
    std::size_t parameter;
    Position position;
    Expression condition;
  };
  struct Kept {  // what stays the same where a configuration is carried to another problem
    std::size_t parameter;
    Expression quantity;
  };
  struct Constraint {
    Expression expression;
    std::string why;
    ConstraintKind kind = ConstraintKind::must;
  };
  // The largest of `values` that is at most `at_most` and makes a legal configuration.
  struct Choice {
    std::size_t parameter;
    std::vector<Value> values;  // descending
    Expression at_most;         // of problem and device alone
  };
  struct Default {
    std::optional<Expression> when;
    Config config;  // of every parameter; the value of the one that is chosen stands in for the choice
    std::optional<Choice> choice;
  };

  std::string file;
  std::string kernel;
  std::vector<Parameter> parameters;  // parameter i has slot i of the vocabulary
  Vocabulary vocabulary;
  std::vector<Let> lets;  // each after the lets it uses
  std::vector<Gate> gates;
  std::vector<Kept> kept;
  std::vector<Constraint> constraints;
  std::vector<Default> defaults;

  bool depends_on_parameters(Slot slot) const;
};

SpaceFile read_space_file(std::string_view json, std::string_view file);

// The value of `parameter` written as `text`. Throws BadInput listing the nearest values.
const Value& value_from_text(const Parameter& parameter, std::string_view text);

// Values by the names of their parameters, in that order. Throws BadInput for an unknown name, or as above.
Config values_from_texts(const std::vector<Parameter>& parameters,
                         const std::vector<std::pair<std::string, std::string>>& texts);

}  // namespace moetune
