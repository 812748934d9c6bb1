// The defaults of a space under many environments that differ in a few whole numbers and names only, and whether a
// configuration can run there: what Space::default_config and why_illegal return, without text. Every expression is
// compiled once, with the names that do not vary folded in; rules that can never hold are left out.
//
// find() and find_within() are thread-safe, and find() allocates nothing; can_run() keeps what it compiled, and is for
// one thread at a time. Refers to the SpaceFile, which must outlive it. Throws BadInput when it is made if an
// expression names something that the environment lacks, or uses it as the wrong type.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "search/assignment.h"
#include "search/environment.h"
#include "search/program.h"
#include "search/rules.h"
#include "search/space_file.h"
#include "search/value_range.h"

namespace moetune {

class BoundDefaults {
 public:
  // A name of the environment whose value is always `factor` times that of a varying one.
  struct Multiple {
    std::string name, of;
    std::int64_t factor = 1;
  };
  // The varying names' values, in their order, as number() gives them.
  using Values = std::span<const std::int64_t>;

  BoundDefaults(const SpaceFile& file, Assignment environment, std::vector<std::string> varying,
                const std::optional<Multiple>& multiple = std::nullopt);

  // For Values; of the same kind (integer or name) as the environment had at first.
  std::int64_t number(const Value& value) { return value.is_named() ? names_.number(value.name) : value.number; }

  // The configurations that can be a default, each once.
  const std::vector<Config>& configs() const { return configs_; }

  // The default, into configs(); nullopt if none can run.
  std::optional<std::uint32_t> find(Values values) const;

  struct Possible {
    std::vector<std::uint32_t> configs;  // into configs(), each once
    bool none = false;                   // there may be no default
    bool is_one() const { return configs.size() + (none ? 1 : 0) == 1; }
  };
  // A superset of what find() returns for values from `low` to `high`; what it is exactly where these are equal.
  Possible find_within(Values low, Values high) const;

  // Whether no rule of kind `must` forbids the configuration, which has a value of its domain for every parameter.
  bool can_run(const Config& config, Values values);

 private:
  // More names than any space has; so that find() needs no memory of its own.
  static constexpr std::size_t kMostSlots = 1024;

  struct Step {  // a quantity of "let" that is to be computed
    Slot slot;
    Program program;
  };
  struct Rule {
    ConstraintKind kind;
    Program program;
  };
  // Those rules for a configuration that depend on what varies.
  struct Legality {
    std::optional<ConstraintKind> broken = std::nullopt;  // by a rule that fails whatever varies; `must` if one is
    std::vector<Step> lets = {};
    std::vector<Rule> rules = {};
    bool is_certain() const { return !broken && rules.empty(); }
  };
  struct Candidate {
    std::uint32_t config = 0;
    std::int64_t value = 0;  // of the parameter that is chosen
    Legality gates;          // of this value alone
  };
  struct Default {
    std::optional<Program> when, at_most;
    std::optional<Slot> chosen;
    Legality legality;                  // of all candidates
    std::vector<Candidate> candidates;  // by chosen value, descending; one if nothing is chosen
  };

  void bind_lets();
  void add(const SpaceFile::Default& rule, std::map<std::string, std::uint32_t>& known);
  std::uint32_t add_config(const Config& config, std::map<std::string, std::uint32_t>& known);
  // `chosen` has no value yet.
  Legality legality_of(const Config& config, std::optional<std::size_t> chosen);
  void add_gates(Legality& legality, std::size_t parameter, const Value& value, const std::vector<Binding>& bindings);
  void require(Legality& legality, ConstraintKind kind, const Expression& expression,
               const std::vector<Binding>& bindings);
  void keep_needed_lets(Legality& legality) const;
  // Valid until the expression is compiled again. Most configurations differ in a few parameters from the one before.
  const Program& compile(const Expression& expression, const std::vector<Binding>& bindings);
  template <typename Visit>
  void set(Values values, const Visit& visit) const;
  void fill(Values values, std::int64_t* slots) const;
  static bool holds(const Legality& legality, Rules rules, std::int64_t* slots);

  const SpaceFile& file_;
  const Assignment environment_;
  EnvironmentNames names_;
  const std::vector<Binding> known_;          // the environment as it was given
  std::vector<Binding> bindings_;             // the same without what varies, and the lets that this decides
  std::vector<std::optional<Slot>> varying_;  // nullopt: no expression names it
  std::optional<Slot> multiple_;
  std::size_t multiple_of_ = 0;  // into varying_
  std::int64_t factor_ = 1;
  std::vector<std::int64_t> slots_;  // by slot: what is known
  std::vector<Step> lets_;           // of the environment alone
  std::vector<Default> defaults_;    // those that can hold
  std::vector<Config> configs_;
  std::map<std::string, Legality> judged_;  // of can_run()
  struct Compiled {
    std::vector<Binding> with;  // of the expression's slots
    std::optional<Program> program;
  };
  std::unordered_map<const Expression*, Compiled> compiled_;  // last
};

}  // namespace moetune
