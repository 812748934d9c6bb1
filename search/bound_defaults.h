// The defaults of a space under many environments that differ in a few names only, and whether a configuration can run
// there: what Space::default_config and why_illegal return, without text and mostly without work. Every expression is
// compiled when it is first needed, with the names that do not vary folded in, and evaluated again only if a name that
// it depends on has another value since.
//
// Not thread-safe: find() and can_run() keep what they compiled and found. Refers to the SpaceFile, which must outlive
// it. Throws BadInput if an expression names something that the environment lacks, or uses it as the wrong type.
#pragma once

#include <cstdint>
#include <deque>
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
  // `varying` are at most 64 names of the environment; set() changes their values, all others stay as they are.
  BoundDefaults(const SpaceFile& file, Assignment environment, const std::vector<std::string>& varying);

  // The value of the i-th varying name; of the same kind (integer or name) as it had at first.
  void set(std::size_t i, const Value& value);

  // nullptr if no default can run. Valid as long as this object; equal pointers are equal configurations.
  const Config* find();

  // Whether no rule of kind `must` forbids the configuration, which has a value of its domain for every parameter.
  bool can_run(const Config& config);

 private:
  // A result, and the varying names that it depends on: bit i for the i-th.
  struct Memo {
    std::uint64_t depends_on = 0;
    std::uint64_t at = 0;  // when it was found; 0: never
    std::int64_t value = 0;
  };
  struct Step {  // a quantity of "let" that is to be computed
    Slot slot;
    Program program;
    Memo memo = {};  // of what the slot holds, if no configuration takes part in it
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
    Memo legal[2] = {};  // by all rules, by those of kind `must`
  };
  struct Condition {
    std::optional<Program> program;
    Memo memo;
  };
  struct Default {
    Condition when, at_most;
    std::vector<Candidate> candidates;  // by chosen value, descending; one if nothing is chosen
  };

  const Config* find(std::size_t rule, Rules rules);
  bool is_legal(Candidate& candidate, Rules rules);
  bool judge(Candidate& candidate, Rules rules);
  void refresh_lets();
  bool is_fresh(const Memo& memo) const;
  std::uint64_t dependencies(const Program& program) const;
  void compile(Candidate& candidate) const;
  void keep_needed_lets(Candidate& candidate) const;
  Program compile(const Expression& expression, const std::vector<Binding>& bindings) const;
  std::int64_t evaluate(Condition& condition, const Expression& expression);

  const SpaceFile& file_;
  const Assignment environment_;
  EnvironmentNames names_;
  const std::vector<Binding> known_;          // the environment as it was given
  std::vector<Binding> bindings_;             // the same without what varies, and the lets that this decides
  std::vector<std::optional<Slot>> varying_;  // nullopt: no expression names it
  std::vector<Step> lets_;                    // of the environment alone
  std::vector<Default> defaults_;             // as in the file
  std::deque<Candidate> judged_;              // of can_run()
  std::vector<std::int64_t> slots_;
  std::vector<std::uint64_t> depends_on_;  // by slot: varying names
  std::uint64_t now_ = 1;                  // advances if a varying name gets another value
  std::uint64_t lets_at_ = 0;              // when lets_ were last brought up to date
  std::vector<std::uint64_t> changed_;     // by varying name: when it last did
};

}  // namespace moetune
