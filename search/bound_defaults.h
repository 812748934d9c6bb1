// The defaults of a space under many environments that differ in a few names only: what Space::default_config returns,
// without text and mostly without work. Every expression is compiled when it is first needed, with the names that do
// not vary folded in; then a default takes well under a microsecond.
//
// Not thread-safe: find() keeps what it compiled. Refers to the SpaceFile, which must outlive it. Throws BadInput if an
// expression names something that the environment lacks, or uses it as the wrong type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search/assignment.h"
#include "search/environment.h"
#include "search/program.h"
#include "search/rules.h"
#include "search/space_file.h"

namespace moetune {

class BoundDefaults {
 public:
  // `varying` are names of the environment; set() changes their values, all others stay as they are.
  BoundDefaults(const SpaceFile& file, Assignment environment, const std::vector<std::string>& varying);

  // The value of the i-th varying name; of the same kind (integer or name) as it had at first.
  void set(std::size_t i, const Value& value);

  // nullptr if no default can run. Valid as long as this object; equal pointers are equal configurations.
  const Config* find();

 private:
  struct Step {  // a quantity of "let" that is to be computed
    Slot slot;
    Program program;
  };
  struct Rule {
    ConstraintKind kind;
    Program program;
  };
  // A default with its chosen value, and what of its rules depends on what varies.
  struct Candidate {
    Config config;
    bool compiled = false;
    std::optional<ConstraintKind> broken =
        std::nullopt;  // by a rule that fails whatever varies; `must` if one is
    std::vector<Step> lets = {};
    std::vector<Rule> rules = {};
  };
  struct Default {
    std::optional<Program> when, at_most;
    std::vector<Candidate> candidates;  // by chosen value, descending; one if nothing is chosen
  };

  const Config* find(std::size_t rule, Rules rules);
  bool is_legal(Candidate& candidate, Rules rules);
  void compile(Candidate& candidate) const;
  void keep_needed_lets(Candidate& candidate) const;
  Program compile(const Expression& expression, const std::vector<Binding>& bindings) const;
  const Program& compiled(std::optional<Program>& program, const Expression& expression) const;

  const SpaceFile& file_;
  const Assignment environment_;
  EnvironmentNames names_;
  const std::vector<Binding> known_;          // the environment as it was given
  std::vector<Binding> bindings_;             // the same without what varies, and the lets that this decides
  std::vector<std::optional<Slot>> varying_;  // nullopt: no expression names it
  std::vector<Step> lets_;                    // of the environment alone
  std::vector<Default> defaults_;             // as in the file
  std::vector<std::int64_t> slots_;
};

}  // namespace moetune
